// LeafJob: the writes of one call that lie in one leaf, from the leaf's lock to its release.
//
// A single write is a job of one. LeafLocker finds, locks and reads the leaf, LeafWriter
// (leaf_writer.h) applies the writes to the leaf's image, LeafCommitter writes the image back and
// ends the lock. Each has steps that do not wait, for a caller that posts the verbs itself, and
// coroutines that wait as often as necessary.
//
// Thread-safety: none; it belongs to its operation. While it waits in a lock table's queue, the
// holder of the turn may use it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "common/status.h"
#include "common/task.h"
#include "compute/allocation/allocated.h"
#include "compute/leaf/leaf_editor.h"
#include "compute/lock/remote_lock.h"
#include "compute/tree/tree_context.h"
#include "proto/leaf.h"

namespace gossamer {

// A leaf under its lock. While the lock is held, no other client writes the leaf: bytes read under
// it are current until its release, also when they are handed over with the lock.
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

struct LeafJob : LockTable::Wish {
  // More puts or deletes than this read and write the leaf whole. Each of so few changes two units
  // at most.
  static constexpr size_t kFew = 4;
  static_assert(2 * kFew <= RemoteLock::kMaxWrites);

  enum class State : uint8_t {
    kOpen,     // nothing is posted
    kTried,    // the lock's CAS is in a batch, and not known to have ended
    kRefused,  // the lock was not taken
    kHeld,     // the lock was taken, or came along
    kEdited,   // likewise, and all writes are in the image
    kLate,     // likewise, under a lease that is perhaps not the present queue pair's
    kGranted,  // another job has done the writes along with its own
  };

  // `all` outlive the job; their keys ascend.
  LeafJob(RemoteLocks& locks, Op& op, std::span<LeafWrite> all) : writes(all), locked(locks, op) {}

  // All wishes in a lock table's queue are jobs.
  static LeafJob& From(LockTable::Wish& wish) { return static_cast<LeafJob&>(wish); }
  static const LeafJob& From(const LockTable::Wish& wish) {
    return static_cast<const LeafJob&>(wish);
  }
  // The path leads to its leaf.
  LeafWrite& first() const { return writes.front(); }
  // Whether its lock ends with a commit: of the writes, or without any.
  bool ends_with_commit() const { return state == State::kHeld || state == State::kEdited; }
  RemoteLock::After after_commit() const {
    return next_turn != nullptr ? RemoteLock::After::kKeep : RemoteLock::After::kRelease;
  }

  State state = State::kOpen;
  // At least one. Of more than kFew puts or deletes, the first stands for all, and `is_whole` is
  // set.
  std::span<LeafWrite> writes;
  bool is_whole = false;  // needs the leaf whole
  // The stamp of the block that the only write's entry refers to.
  std::optional<AllocationStamp> block;
  LockedLeaf locked;

  // Of the caller: with the try, once that was added; then with the commit.
  Batch* batch = nullptr;
  RemoteLock::Taking taking{};
  uint32_t wanted = 0;  // bit set of the units to read, as in LeafLocker::WantedUnits

  // What came with a lock that was handed over, in the image.
  uint32_t known_units = 0;  // bit set
  bool knows_trailer = false;

  // What becomes of the leaf's lock and of its waiters, once the commit was prepared.
  bool has_changes = false;                // Without, the commit is the release alone.
  bool is_sparse = false;                  // The leaf has lost entries, and may be worth a merge.
  LockTable::WaiterList granted;           // Their writes are written along.
  LockTable::Waiter* next_turn = nullptr;  // gets the lock
};

// Finds, locks and reads the leaf of a job. One for each session.
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

// Writes the changed units of a job's leaf, and ends its lock. One for each session.
//
// The jobs of waiters for the same leaf are done along (command combining). The next waiter for the
// slot gets the lock without a release, if it may.
class LeafCommitter {
 public:
  LeafCommitter(TreeContext& context, const LeafLocker& leaves)
      : context_(context), leaves_(leaves) {}

  // Writes what the leaf's editor has changed, together with the waiters' jobs that can be granted,
  // and ends the lock. If nothing has changed, it is released, and the caller's answer counts only
  // after success (rule L5).
  // Errors: as RemoteLock::Commit, or RemoteLock::Release if there was nothing to write.
  // Cost: 1 RT.
  Task<Status> Commit(LeafJob& job) const;

  // Commit in steps, for a caller that posts and awaits the verbs itself.
  //
  // Applies the waiters' jobs that can be granted, and decides how the lock ends.
  void Prepare(LeafJob& job) const;
  // Verbs that AddCommit adds, at most.
  static constexpr uint32_t kMaxVerbs = RemoteLock::kMaxWrites + 1;
  // Adds the WRITEs of the changed units and the release. Requires: nothing was awaited since
  // Prepare, and the lock is in its epoch.
  void AddCommit(LeafJob& job, Batch& batch) const;
  // Posts and awaits what Prepare has prepared, instead of AddCommit. As Commit.
  Task<Status> CommitPrepared(LeafJob& job) const;
  // Answers the waiters once the commit has ended with `result`. Returns the result for the job's
  // own writes.
  Status Conclude(LeafJob& job, const Status& result) const;
  // The same of a commit that has succeeded.
  void ConcludeWritten(LeafJob& job) const;

 private:
  LockTable::WaiterList GrantWaiters(LockedLeaf& locked) const;
  void AnswerWaiters(LeafJob& job, const Status& status) const;
  // Adds the WRITEs of the changed units.
  void AddWrites(LockedLeaf& locked, Batch& batch) const;

  TreeContext& context_;
  const LeafLocker& leaves_;
};

}  // namespace gossamer
