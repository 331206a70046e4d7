// LeafLocker: finds, locks and reads the leaf of a job.
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "common/status.h"
#include "common/task.h"
#include "compute/tree/tree_context.h"
#include "compute/tree/write/leaf_job.h"

namespace gossamer {

class LeafLocker {
 public:
  explicit LeafLocker(TreeContext& context) : context_(context) {}

  // Locks the leaf of the job's first write, which is at `locked.path` if that is set, and reads
  // that write's home group and the units that the job is likely to need. Goes on where the steps
  // below have left the job, and leaves it kHeld; or, if `may_be_granted` and another job has done
  // the writes instead, kGranted.
  // `alongside`, a batch of the caller's or null, is posted with the first try.
  // Cost: 1 RT for the CAS and the READs behind it; 0 RT for a lock handed over with these units.
  Task<Status> Lock(Op& op, LeafJob& job, bool may_be_granted, Batch* alongside);

  // Lock in steps, for a caller that posts and awaits the first try itself, perhaps with those of
  // other jobs.
  //
  // Aims at the leaf of `locked.path`. Returns false if that, or to register with the server, would
  // have to wait.
  bool Aim(LeafJob& job) const;
  // Gives the leaf's image a buffer of its own.
  // Errors: NoResources: no registered memory.
  Status UseBuffer(LeafJob& job) const;
  // Verbs of a try, at most.
  static constexpr uint32_t kMaxTryVerbs = 1 + RemoteLock::kMaxReads;
  // Adds the CAS, and the READs behind it that the writes need. Requires: the turn, a buffer.
  void AddTry(LeafJob& job, Batch& batch) const;
  // Once that batch has ended: learns whether the lock is held. Returns whether it is, the READs
  // have succeeded and are valid, and all writes are in the leaf's range. A caller whose job goes
  // on with Lock leaves this step out if the batch has failed.
  bool AcceptTry(LeafJob& job) const;

  // Reads the overflow group under the lock. Cost: 1 RT.
  Task<Status> ReadOverflow(LockedLeaf& locked) const;
  // Reads all units and the trailer under the lock.
  // Requires: no unit was changed yet.
  // Cost: 1 RT.
  Task<Status> ReadRest(LockedLeaf& locked) const;
  // Reads the long keys of the known units, as far as they are not known; with `key`, only those
  // that may be this one.
  // Errors: those of BlockReader::ReadKeys. Cost: 1 RT if there are any.
  Task<Status> ReadLongKeys(Op& op, LockedLeaf& locked,
                            std::optional<KeyView> key = std::nullopt) const;
  // Parses the image again, which the holder of the lock has written whole.
  void AcceptRewritten(LockedLeaf& locked) const;
  // Corrects the cache's hint for the leaf, to which `key` belongs, by the units that are known.
  void LearnHint(const LockedLeaf& locked, KeyView key) const;
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

  // The path to the leaf of `key`, from the cache or by a descent.
  Task<Status> FindPath(Op& op, KeyView key, LockedLeaf& locked) const;
  // kClosed: the place has been settled; try again.
  Task<Result<LockTable::Answer>> AwaitTurn(Op& op, LeafJob& job, bool may_be_granted,
                                            Batch*& alongside) const;
  // Begins the leaf's image anew, of which nothing is known.
  void BeginImage(LeafJob& job) const;
  uint32_t WantedUnits(LeafJob& job) const;
  // Calls visit(make) for each READ, RemoteLock::kMaxReads at most, of the `wanted` units; make()
  // returns it.
  template <typename Visit>
  void ForEachRead(const LockedLeaf& locked, uint32_t wanted, Visit visit) const;
  // Checks what was read. Returns false unless all of it is valid.
  bool Accept(LockedLeaf& locked, uint32_t wanted) const;
  bool AcceptTrailer(LockedLeaf& locked) const;
  // The READ of the leaf's bytes from `at` on.
  static Verb ReadVerb(const LockedLeaf& locked, uint32_t at, uint32_t bytes) {
    return Verb::Read(locked.leaf().offset() + at, bytes, locked.image(at));
  }
  // The locked leaf is not that of the first write: releases it, and finds the path to that leaf.
  Task<Status> LeaveStaleLeaf(Op& op, LeafJob& job, bool is_valid, Search& search) const;
  // The same of a frozen leaf: has its left neighbour take over its entries, if that is known.
  Task<Status> LeaveFrozenLeaf(Op& op, LockedLeaf& locked, Search& search) const;
  Task<Result<RemotePtr>> ReleaseForSibling(LockedLeaf& locked, uint32_t unit) const;

  TreeContext& context_;
};

}  // namespace gossamer
