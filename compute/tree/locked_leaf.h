// LeafLocker: finds, locks and reads the leaf for a write.
//
// While a leaf's lock is held nobody else writes the leaf: what was read under the lock is current until its release, also
// where the lock is handed over together with what is known of the leaf.
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "common/status.h"
#include "common/task.h"
#include "compute/allocation/allocated.h"
#include "compute/lock/remote_lock.h"
#include "compute/node/unit_buffers.h"
#include "compute/tree/leaf_editor.h"
#include "compute/tree/tree_context.h"
#include "proto/leaf.h"

namespace gossamer {

// A write that waits in the lock table's queue. The holder of the turn may do it along with its own write.
struct LeafWish : LockTable::Wish {
  LeafWrite write;
  // Of the block that the entry refers to.
  std::optional<AllocationStamp> block;
  // The writer's own image of the leaf: where units go that are handed over with the lock.
  std::byte* image = nullptr;
  uint32_t known_units = 0;    // bits of those that were handed over
  bool knows_trailer = false;  // whether the trailer was

  // All wishes in a lock table's queue are of this type.
  static LeafWish& From(LockTable::Wish& wish) { return static_cast<LeafWish&>(wish); }
  static const LeafWish& From(const LockTable::Wish& wish) {
    return static_cast<const LeafWish&>(wish);
  }
};

// A leaf under its lock.
struct LockedLeaf {
  LockedLeaf(RemoteLocks& locks, Op& op) : lock(locks, op) {}

  RemotePtr leaf() const { return path.node; }
  const GroupView& unit(uint32_t number) const { return editor->Unit(number); }
  LocalAddress image(uint32_t at = 0) const { return buffers.address(LockedBuffers::kImage + at); }

  NodeCache::Step path;
  RemoteLock lock;
  BufferLease buffers;  // laid out as LockedBuffers
  std::optional<LeafEditor> editor;
  std::optional<TrailerView> trailer;  // once the leaf was read whole
};

class LeafLocker {
 public:
  enum class Outcome : uint8_t { kLocked, kDoneByAnother };

  explicit LeafLocker(TreeContext& context) : context_(context) {}

  // Locks the leaf for `wish` and reads the write's home group, and the units that it is likely to need. Another
  // operation may do the write instead, if `may_be_granted`. `alongside`, a batch of the caller's or null, is posted with
  // the first try. 1 RT: the CAS and the READs behind it; 0 RT with a lock that was handed over along with these units.
  Task<Result<Outcome>> Lock(Op& op, LeafWish& wish, bool may_be_granted, Batch* alongside,
                             LockedLeaf& locked);
  // Reads the overflow group under the lock. 1 RT.
  Task<Status> ReadOverflow(LockedLeaf& locked) const;
  // Reads all units and the trailer under the lock. Requires: nothing was changed yet. 1 RT.
  Task<Status> ReadRest(LockedLeaf& locked) const;
  // The error, or that of the release.
  static Task<Status> ReleaseAfter(LockedLeaf& locked, Error error);
  // `next` gets the lock and, if it wants this leaf, what is known of the leaf.
  void HandOver(LockedLeaf& locked, LockTable::Waiter& next) const;

 private:
  // How the search for the leaf has gone so far.
  struct Search {
    bool has_path = false;
    bool is_afresh = false;  // a path without a cached parent was found afresh once
    uint32_t failures = 0;
    uint32_t disagreements = 0;  // of group and trailer, in a row
  };
  enum class Turn : uint8_t { kMine, kTryAgain, kLookUp, kDoneByAnother };

  Task<Result<Turn>> TakeTurn(Op& op, LeafWish& wish, bool may_be_granted, Batch*& alongside,
                              LockedLeaf& locked) const;
  uint32_t WantedUnits(LockedLeaf& locked, const LeafWrite& write) const;
  // READs of `wanted` units.
  size_t AddReads(const LockedLeaf& locked, uint32_t wanted,
                  std::span<Verb, RemoteLock::kMaxReads> reads) const;
  // Checks what was read. False: not all of it is valid.
  bool Accept(LockedLeaf& locked, uint32_t wanted) const;
  bool AcceptTrailer(LockedLeaf& locked) const;
  Verb ReadUnitVerb(const LockedLeaf& locked, uint32_t number) const;
  // The locked leaf is not the one for the key: releases it, and finds the way to the one that is.
  Task<Status> LeaveStaleLeaf(Op& op, LockedLeaf& locked, const LeafWrite& write, bool is_valid,
                              Search& search) const;
  Task<Result<RemotePtr>> ReleaseForSibling(LockedLeaf& locked, uint32_t unit) const;

  TreeContext& context_;
};

}  // namespace gossamer
