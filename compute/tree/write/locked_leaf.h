// LeafLocker: finds, locks and reads the leaf for a write.
//
// While a leaf's lock is held, no other client writes the leaf. So bytes read under the lock are
// current until its release, also when they are handed over with the lock.
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "common/status.h"
#include "common/task.h"
#include "compute/allocation/allocated.h"
#include "compute/leaf/leaf_editor.h"
#include "compute/leaf/unit_buffers.h"
#include "compute/lock/remote_lock.h"
#include "compute/tree/tree_context.h"
#include "proto/leaf.h"

namespace gossamer {

// A write that waits in a lock table's queue. The holder of the turn may do it along with its own
// write.
struct LeafWish : LockTable::Wish {
  LeafWrite write;
  // Further writes of the same operation, whose units are read along.
  std::span<const LeafWrite> along;
  // Whether the operation needs the leaf whole.
  bool is_whole = false;
  // The stamp of the block that the entry refers to.
  std::optional<AllocationStamp> block;
  // The waiter's own image of the leaf. Units handed over with the lock are copied there.
  std::byte* image = nullptr;
  uint32_t known_units = 0;    // bit set of the units handed over
  bool knows_trailer = false;  // whether the trailer was handed over

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
  // A key in the leaf's range, as GroupView::Parse wants it.
  KeyView within() const { return key_inside.data() != nullptr ? key_inside : path.low.view(); }
  const GroupView& unit(uint32_t number) const { return editor->Unit(number); }
  LocalAddress image(uint32_t at = 0) const { return buffer + (LockedBuffers::kImage + at); }
  void UseBuffer(LocalAddress address) {
    buffer = address;
    lock.UseWords(buffer + LockedBuffers::kLockWord, buffer + LockedBuffers::kUnlockWord);
  }

  NodeCache::Step path;
  KeyView key_inside;  // if the path lacks the low fence
  RemoteLock lock;
  LocalAddress buffer;  // laid out as LockedBuffers
  BufferLease lease;    // of the buffer, unless that is a part of another's
  std::optional<LeafEditor> editor;
  std::optional<TrailerView> trailer;  // once the leaf was read whole
};

class LeafLocker {
 public:
  enum class Outcome : uint8_t { kLocked, kDoneByAnother };

  explicit LeafLocker(TreeContext& context) : context_(context) {}

  struct Tried;

  // Locks the leaf for `wish`, which is at `locked.path` if that is set, and reads the write's home
  // group and the units that it is likely to need. If `may_be_granted`, another operation may do the
  // write instead. `alongside`, a batch of the caller's or null, is posted with the first try. With
  // `tried`, goes on from there.
  // Cost: 1 RT for the CAS and the READs behind it; 0 RT for a lock handed over with these units.
  Task<Result<Outcome>> Lock(Op& op, LeafWish& wish, bool may_be_granted, Batch* alongside,
                             LockedLeaf& locked, Tried* tried = nullptr);

  // Lock in steps, for a caller that tries the locks of many leaves in one batch for each server.
  //
  // Aims at the leaf of `locked.path`. Returns false if that, or to register with the server, would have to wait.
  bool PrepareTrial(LockedLeaf& locked) const;
  struct Trial {
    RemoteLock::Taking taking{};
    uint32_t wanted = 0;  // bit set of the units to read, as in WantedUnits
  };
  // Verbs of a trial, at most.
  static constexpr uint32_t kMaxTrialVerbs = 1 + RemoteLock::kMaxReads;
  // Adds the CAS, and the READs behind it that `writes`, at least one, need. Requires: the turn.
  void AddTrial(LockedLeaf& locked, std::span<const LeafWrite> writes, Batch& batch,
                Trial& trial) const;
  // Whether the READs of a trial have succeeded and are valid. Requires: its lock is held.
  bool AcceptTrial(LockedLeaf& locked, const Trial& trial, const Batch& batch) const;

  // Lock in two steps, for a caller that awaits the first try itself.
  struct Tried {
    InlineBatch<kMaxTrialVerbs> batch;
    Trial trial;
    bool is_taken = false;
  };
  // Aims at the leaf of `locked.path`, takes the turn and adds the verbs of the first try. Returns false if something
  // would have to be waited for.
  bool PrepareTry(LeafWish& wish, LockedLeaf& locked, Tried& tried) const;
  // Once the batch has ended: whether the leaf is locked, and is that of the key. If not, Lock goes on.
  bool AcceptTry(const LeafWish& wish, LockedLeaf& locked, Tried& tried) const;

  // Reads the overflow group under the lock. Cost: 1 RT.
  Task<Status> ReadOverflow(LockedLeaf& locked) const;
  // Reads all units and the trailer under the lock.
  // Requires: no unit was changed yet.
  // Cost: 1 RT.
  Task<Status> ReadRest(LockedLeaf& locked) const;
  // Reads the long keys of the known units, as far as they are not known; with `key`, only those that may be this one.
  // Errors: those of BlockReader::ReadKeys. Cost: 1 RT if there are any.
  Task<Status> ReadLongKeys(Op& op, LockedLeaf& locked,
                            std::optional<KeyView> key = std::nullopt) const;
  // Parses the image again, which the holder of the lock has written whole.
  void AcceptRewritten(LockedLeaf& locked) const;
  // Corrects the cache's hint for the leaf, to which `key` belongs, by the units that are known.
  void LearnHint(const LockedLeaf& locked, KeyView key) const;
  // Releases the lock. Returns `error`, or the error of the release.
  static Task<Status> ReleaseAfter(LockedLeaf& locked, Error error);
  // Gives `next` the lock and, if it wants this leaf, the known units.
  void HandOver(LockedLeaf& locked, LockTable::Waiter& next) const;

 private:
  // The search for the leaf so far.
  struct Search {
    bool has_path = false;
    bool is_afresh = false;  // a path without a cached parent was replaced by a fresh descent
    // The leaf that failed its checks last, and how often in a row.
    RemotePtr failed;
    uint32_t failures = 0;
    // Where the leaf starts from which this search came to the sibling.
    std::optional<Key> left;
    uint32_t disagreements = 0;  // times in a row that group and trailer did not agree
  };
  enum class Turn : uint8_t { kMine, kTryAgain, kLookUp, kDoneByAnother };

  // The path to the leaf of `key`, from the cache or by a descent.
  Task<Status> FindPath(Op& op, KeyView key, LockedLeaf& locked) const;
  // Gives the leaf's image a buffer.
  Status UseBuffers(LeafWish& wish, LockedLeaf& locked) const;
  Task<Result<Turn>> TakeTurn(Op& op, LeafWish& wish, bool may_be_granted, Batch*& alongside,
                              LockedLeaf& locked) const;
  uint32_t WantedUnits(LockedLeaf& locked, const LeafWrite& write, std::span<const LeafWrite> along,
                       bool is_whole) const;
  // Calls visit(make) for each READ, RemoteLock::kMaxReads at most, of the `wanted` units; make() returns it.
  template <typename Visit>
  void ForEachRead(const LockedLeaf& locked, uint32_t wanted, Visit visit) const;
  // Checks what was read. Returns false unless all of it is valid.
  bool Accept(LockedLeaf& locked, uint32_t wanted) const;
  bool AcceptTrailer(LockedLeaf& locked) const;
  // The READ of the leaf's bytes from `at` on.
  static Verb ReadVerb(const LockedLeaf& locked, uint32_t at, uint32_t bytes) {
    return Verb::Read(locked.leaf().offset() + at, bytes, locked.image(at));
  }
  // The locked leaf is not that of the key: releases it, and finds the path to that leaf.
  Task<Status> LeaveStaleLeaf(Op& op, LockedLeaf& locked, const LeafWrite& write, bool is_valid,
                              Search& search) const;
  // The same of a frozen leaf: has its left neighbour take over its entries, if that is known.
  Task<Status> LeaveFrozenLeaf(Op& op, LockedLeaf& locked, Search& search) const;
  Task<Result<RemotePtr>> ReleaseForSibling(LockedLeaf& locked, uint32_t unit) const;

  TreeContext& context_;
};

}  // namespace gossamer
