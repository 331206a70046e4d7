// RemoteLock: the lock of one tree node, from the wait for it to its release.
//
// The lock of a node is a word in the lock table of the node's memory server; nodes that hash to
// the same word share it. A lock is taken in two steps:
//
//   1. Its *turn* at the compute server's LockTable, first come first served: of all coroutines of
//      all sessions here, one contends remotely.
//   2. CAS of the word from 0 to (lease, node). The READs of what the lock guards are posted behind
//      the CAS, in the same batch. If the CAS fails, their results are discarded (rule R4).
//
// A lock that is *held* ends in one of four ways:
//
//   Release   CAS from exactly the word taken to 0 (rules L1, L2).
//   Commit    WRITEs and then the same CAS, in one batch: WRITE before WRITE before atomic (O1,
//             O2), so that the next holder and every reader sees the WRITEs in their order.
//   HandOver  Commit keeps the word, and the next coroutine in the LockTable's queue gets turn and
//             lock (rule L3).
//   orphaned  The memory server is out of reach: the lock goes to OrphanedLocks, which settles it
//             later (rule U5).
//
// A verb may end without saying whether it took effect. Then the turn is kept, so that no other
// coroutine here mistakes this lock's word for its own; the queue pair is destroyed and replaced
// (rule U1), and the word tells what happened (rule U2): if our word is gone, the release took
// effect, and all that was posted before it.
//
// A lock belongs to the lease under which it was taken, its epoch (rule L4). What is posted under
// the lock goes out on queue pairs of that lease only. Once the lease has ended, the lock is void:
// other compute servers may take it, and nothing posted under it can land any more.
//
// No coroutine waits for a turn or a lock while it holds another lock: no deadlock.
//
// A lock that is held and destroyed would lock its node until the compute server's lease ends: the
// destructor aborts.
//
// Memory order: what the lock guards is remote. It is read behind the CAS on one queue pair (O3)
// and written before the releasing CAS (O2); local memory is ordered by the coroutine, and by
// LockTable where a lock is handed over.
//
// Example: read a node under its lock, change it, and write it back.
//
//   RemoteLock lock(locks, op);
//   lock.UseWords(taken_word, released_word);
//   TRY(lock.AimAt(node));
//   TRY(co_await lock.Take({&read_node, 1}));
//   // The image is current, and stays so while the lock is held.
//   batch.Add(write_node);
//   co_return co_await lock.Commit(batch, After::kRelease);
//
// Sources: Sherman (SIGMOD'22, 4.2 to 4.4): hierarchical on-chip locks, command combining.
//
// Thread-safety: none; a lock belongs to its operation. Cost: no allocation.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "common/fabric/scheduler.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/allocation/remote_allocator.h"
#include "compute/counters/session_counts.h"
#include "compute/lock/lease_status.h"
#include "compute/lock/lock_table.h"
#include "compute/lock/orphaned_locks.h"
#include "compute/session/links.h"
#include "compute/session/pauses.h"
#include "proto/group.h"
#include "proto/leaf_geometry.h"
#include "proto/lock_word.h"
#include "proto/region.h"
#include "proto/remote_ptr.h"

namespace gossamer {

// The layout of a buffer for a locked node: the words that its atomics find, and the node.
struct LockedBuffers {
  static constexpr size_t kLockWord = 0;
  static constexpr size_t kUnlockWord = 8;
  static constexpr size_t kChildWord = 16;
  static constexpr size_t kImage = 64;
  static constexpr size_t Bytes(uint32_t node_bytes) { return kImage + node_bytes; }
};

// What the locks of a session have in common.
struct RemoteLocks {
  Links& links;
  Pauses& pauses;
  LockTable& table;
  OrphanedLocks& orphans;
  LeaseStatus& leases;
  const SessionAllocator& memory;
  const LeafGeometry& geometry;
  uint32_t timeout_ms;
  LiveLockCounts& counts;

  uint64_t round_trip_ns = 1000;  // moving average of contended tries
};

class [[nodiscard]] RemoteLock {
 public:
  // READs that go out behind the CAS, at most.
  static constexpr uint32_t kMaxReads = 3;
  // WRITEs of one commit, at most.
  static constexpr uint32_t kMaxWrites = 8;
  // So many times in a row, at most, a lock is handed over within this compute server. Then the
  // others may take it.
  static constexpr uint32_t kMaxHandovers = 4;

  // What becomes of the lock behind a commit's WRITEs.
  enum class After : uint8_t { kRelease, kKeep };

  // The version that a commit gives a node where it changes the tree's structure. The commit is
  // recognised by it.
  struct NewVersion {
    RemotePtr node;
    uint32_t level = 0;
    NodeVersion version{0};
    KeyView low{};  // where a leaf starts
  };

  enum class Attempt : uint8_t { kTaken, kRefused };

  // A CAS that takes the lock, in a batch.
  struct Taking {
    LockWord word;      // that it writes
    uint64_t expected;  // that it replaces
    size_t verb;        // its place in the batch
  };

  // `locks` and `op` outlive the lock.
  RemoteLock(RemoteLocks& locks, Op& op) : locks_(&locks), op_(&op) {}

  // -- which lock

  // Makes this the lock of `node`. Keeps the turn. Requires: not held. Errors: as
  // Links::CheckReaches.
  Status AimAt(RemotePtr node) {
    assert(!is_held());
    BOOST_OUTCOME_TRYV(locks_->links.CheckReaches(*op_, node, locks_->geometry.node_bytes()));
    SetNode(node);
    return Ok();
  }
  // Makes this the lock of the root word. Requires: not held.
  void AimAtRootWord() {
    assert(!is_held());
    SetNode(RemotePtr(ServerId{0}, kRootWordOffset, 0));
  }
  RemotePtr node() const { return node_; }
  const LockPlace& place() const { return place_; }
  ServerId server() const { return place_.server; }
  // Where the atomics that take and release the lock put the old word: memory that is allocated
  // before the lock is taken, so that no failed allocation leaves a lock behind.
  void UseWords(LocalAddress taken, LocalAddress released) {
    taken_word_ = taken;
    released_word_ = released;
  }

  // -- the turn

  // Marks the words that this takes the lock with from now on: its holder merges the node away
  // (rule W4), or undoes that (rule W12).
  void MarkAsMerge() { is_merge_ = true; }
  // Whether this has the turn at the lock it aims at.
  bool HasTurn() const { return locks_->table.IsAt(turn_, place_); }
  // Loads what TryTakeTurn needs.
  void PrefetchTurn() const { locks_->table.Prefetch(place_); }
  // Takes the turn if it is free. Returns HasTurn().
  bool TryTakeTurn();
  // Shares the turn of `other`, a lock of the same operation at another place, if that is a turn
  // here as well. Returns HasTurn(). Requires: HasTurn() is false.
  bool TryShareTurn(const RemoteLock& other);
  // Waits for the turn. With kTurn, the remote lock may have come along: is_held().
  Task<LockTable::Answer> TakeTurn(LockTable::Wish* wish);
  void GiveUpTurn() { turn_.GiveUp(); }
  LockTable::Turn& turn() { return turn_; }
  // Waits until the closed place may be open again.
  // Errors: NodeUnreachable if settling fails or takes too long.
  Task<Status> AwaitSettled();

  // -- taking. Requires: HasTurn().

  // Takes the lock, unless it is held, and READs `reads` under it. `alongside`, a batch of the
  // caller's or null, is posted at the same time.
  // Returns: kRefused if another compute server has the lock; nothing that was read counts.
  // Errors: the lock is not held. If `alongside` failed, op.needs_other_memory is set.
  // Cost: 1 RT.
  Task<Result<Attempt>> Try(std::span<const Verb> reads, Batch* alongside = nullptr);
  // After Try returned kRefused: pauses, and learns whether the holder's lease has ended.
  // Errors: Contended after the lock timeout, and for a repair after a few tries.
  Task<Status> BackOff();
  // Waits for the turn, unless this has it, and then for the lock. READs `reads` behind its CAS. A
  // repair does not wait for a turn. Requires: the operation holds no lock.
  // Errors: those of Try, AwaitSettled, BackOff; Contended for a repair. It is not held.
  // Cost: 1 RT if it is free.
  Task<Status> Take(std::span<const Verb> reads);
  // Whether the lock timeout has passed since the first call, without the time in which this
  // compute server waited for memory servers to come back. Call it when the operation starts to
  // wait.
  bool HasWaitedLong();
  // Returns Contended, naming the holder, about which the memory server is asked.
  // Cost: 1 RT, 1 SEND.
  Task<Error> ContendedError() const;
  // Whether the lease in the word that was found has ended: the next try takes the lock from it
  // (rule L6).
  bool holder_is_dead() const { return holder_is_dead_; }

  // Try in steps, for a caller that posts the CAS and the READs behind it in a batch with other
  // verbs. (`taking` in place: it would be copied as soon as it is stored.)
  void AddTaking(Batch& batch, std::span<const Verb> reads, Taking& taking);
  // Once `batch` has ended with success: whether the lock was taken.
  static bool HasTaken(const Taking& taking, const Batch& batch) {
    return batch.verbs()[taking.verb].old_value() == taking.expected;
  }
  // Goes on with a try once its batch, which had no other verbs, has ended. As Try.
  // Cost: none unless the batch failed.
  Task<Result<Attempt>> FinishTry(const Taking& taking, const Batch& batch);
  // Call once `batch` has ended. Returns true if is_held() tells whether the lock is held; if not,
  // FinishTaking finds out.
  bool LearnTaken(const Taking& taking, const Batch& batch);
  // Likewise, and is_held() tells in any case.
  // Errors: that is unknown; the lock is orphaned.
  Task<Status> FinishTaking(const Taking& taking, const Batch& batch);

  // -- under the lock

  bool is_held() const { return static_cast<bool>(held_); }
  HeldLock held() const { return *held_; }
  // What the next commit makes reachable (rule U4).
  LinkedMemory& linked() { return linked_; }
  // Executes READs of what the lock guards, again after losses. The lock stays held, also after
  // errors: the caller releases it.
  // Errors: Fenced: the lock is void; NodeUnreachable.
  Task<Status> Read(Batch& reads);

  // -- ends. Requires: is_held().

  // Errors: Fenced: the lock was void, and what was read under it may be out of date (rule L5);
  // NodeUnreachable: the lock is orphaned.
  // Cost: 1 RT.
  Task<Status> Release();
  // Releases the lock, if it is held, for a caller that gives up with `error`. Returns the error of
  // the release, if that fails, else `error`.
  Task<Error> ReleaseAfter(Error error);
  // Executes the WRITEs of `batch`, in their order, and the release behind them. With After::kKeep
  // the lock stays held after success. `changed`: see NewVersion.
  // Requires: `batch` has room for one more verb.
  // Errors: MaybeApplied; after any other error nothing was written.
  // Cost: 1 RT.
  Task<Status> Commit(Batch& batch, After after, const std::optional<NewVersion>& changed = {});
  // Executes `read` and the release in one batch, to leave a node and learn where to go.
  // kUnknown: the lock is released, and the bytes read count for nothing.
  // Cost: 1 RT.
  enum class ReadState : uint8_t { kRead, kUnknown };
  Task<Result<ReadState>> ReleaseAndRead(const Verb& read);
  // Returns the waiter to hand the lock over to. Null if none waits, or if it is the turn of other
  // compute servers.
  LockTable::Waiter* NextWaiter();
  // `next` gets the turn and the lock. Requires: what was written has been acknowledged (rule L3).
  void HandOver(LockTable::Waiter& next);

  // Commit in steps, for a caller that posts other verbs before or behind it in the same batch:
  // EnterEpoch (or IsInEpoch), MayLink and AddEnd with nothing awaited in between, then
  // FinishCommit once the batch has ended.
  // Errors: Fenced: the lock is void; NodeUnreachable: it is orphaned.
  Task<Status> EnterEpoch() { return EnterEpoch(*held_); }
  // Whether the lease of the present queue pair is known and, if the lock is held, the lock's
  // epoch.
  bool IsInEpoch() const {
    const Lease& lease = locks_->links.LeaseWith(server());
    return lease.incarnation != 0 && (!held_ || held_->word.lease() == lease);
  }
  // Whether what linked() names may become reachable from a node on the lock's server now (rule
  // U4).
  bool MayLink() const;
  // Ends the commit whose WRITEs are the verbs of `batch` from `first` on: adds the release behind
  // them, or keeps the lock.
  void AddEnd(Batch& batch, size_t first, After after);
  // Whether the commit is known to have succeeded once `batch` has ended. Cheaper than ResultOf.
  bool HasWritten(const Batch& batch) const;
  // The result of the commit once `batch` has ended; nullopt if it is unknown: FinishCommit finds
  // out.
  std::optional<Status> ResultOf(const Batch& batch) const;
  Task<Status> FinishCommit(const Batch& batch, const std::optional<NewVersion>& changed);

 private:
  static bool AreFlushed(std::span<const Verb> verbs) {
    return std::ranges::all_of(
        verbs, [](const Verb& verb) { return verb.status == VerbStatus::kFlushed; });
  }
  static bool AreKnown(std::span<const Verb> verbs) {
    return std::ranges::all_of(
        verbs, [](const Verb& verb) { return verb.status == VerbStatus::kSuccess; });
  }

  // The lock while it is held: it may not be dropped, nor replaced by a move.
  class Held {
   public:
    Held() = default;
    Held(Held&& other) noexcept : lock_(other.Take()) {}
    // Aborts if this is held.
    Held& operator=(Held&& other) noexcept {
      const Held before(std::move(*this));
      lock_ = other.Take();
      return *this;
    }
    ~Held();
    explicit operator bool() const { return static_cast<bool>(lock_); }
    const HeldLock& operator*() const { return lock_; }
    const HeldLock* operator->() const { return &lock_; }
    void Set(const HeldLock& lock) { lock_ = lock; }
    HeldLock Take() { return std::exchange(lock_, {}); }

   private:
    HeldLock lock_;
  };

  enum class Outcome : uint8_t { kApplied, kNotApplied };
  // A commit on its way.
  struct Pending {
    HeldLock held;
    // Of the batch: the WRITEs, and the release if there is one.
    size_t first = 0;
    size_t end = 0;
    After after = After::kRelease;

    // In place: a copy of the whole would wait for its members to be stored.
    void Set(const HeldLock& of, size_t from, size_t to, After then) {
      held = of;
      first = from;
      end = to;
      after = then;
    }
    std::span<const Verb> VerbsOf(const Batch& batch) const {
      return batch.verbs().subspan(first, end - first);
    }
  };

  void SetNode(RemotePtr node);
  // The word that this compute server would write now.
  LockWord NewWord() const;
  Verb ReleaseVerb(const HeldLock& held) const {
    return Verb::CompareSwap(Space::kLockTable, place_.slot, held.word.word(), 0, released_word_);
  }
  Status CheckReleased(uint64_t found, const HeldLock& held) const;
  // Returns Fenced if `held` belongs to another lease than the present queue pair (rule L4). Called
  // in the step that posts, with that lease known.
  Status CheckEpoch(const HeldLock& held) const;
  // Makes sure that a lock that came with the turn is of the present queue pair's lease.
  // Errors: Fenced: it is void (rule L5).
  Task<Status> AdoptHandedOver();
  // Returns Fenced, noted in the operation, unless MayLink().
  Status CheckLinks();
  // For a lock that is held as `held`, or was until its release was posted.
  Task<Status> EnterEpoch(HeldLock held);
  // After a try whose batch failed; `unknown` is the word that its CAS may have written, null if
  // that is known.
  Task<Status> RecoverTry(const LockWord* unknown, Loss loss);
  // What a commit that was applied by `verbs` returns.
  Status Conclude(std::span<const Verb> verbs) const;
  // Goes on with a commit that ended in an unknown way until it is applied, or may not be posted
  // again.
  Task<Status> SettleCommit(const Batch& batch, std::optional<NewVersion> changed);

  // -- while the lock is another's (lock_wait.cc)

  void LearnRoundTrip(std::chrono::nanoseconds took);
  uint64_t LongestPauseNs() const;

  // -- after a loss (lock_recovery.cc)

  // Gives the lock, which may be held as `held`, to the store: its queue pair is lost and not
  // replaced.
  void Orphan(HeldLock held);
  // Returns the lock word, after the queue pair was replaced and its new lease is known.
  // Errors: the server is out of reach; the lock is orphaned.
  Task<Result<uint64_t>> FindWord(HeldLock held, LocalAddress word_at, Loss loss);
  Task<Result<uint64_t>> ReadWord(LocalAddress word_at);
  // After a CAS that would have written `word` ended in an unknown way.
  Task<Status> FindOutTaken(LockWord word, Loss loss);
  // Whether the pending commit, which ended in an unknown way, was applied. If not, the lock is
  // held.
  // Errors: MaybeApplied; the lock is not held.
  // `may_be_applied`: false if no verb of the commit has been posted.
  Task<Result<Outcome>> FindOutApplied(const std::optional<NewVersion>& changed, Loss loss,
                                       bool may_be_applied);
  // Requires: is_held().
  // Cost: 1 RT.
  Task<Result<NodeVersion>> ReadVersion(const NewVersion& changed);
  // After a release of `held` ended in an unknown way.
  // Errors: Fenced; NodeUnreachable: the lock is orphaned.
  Task<Status> SettleRelease(HeldLock held, Loss loss);

  RemoteLocks* locks_;
  Op* op_;
  RemotePtr node_;
  LockPlace place_;
  LocalAddress taken_word_;
  LocalAddress released_word_;
  LockTable::Turn turn_;  // none without hierarchical locks
  Held held_;
  Pending pending_;
  LinkedMemory linked_;
  bool is_merge_ = false;

  // While another compute server has the lock: its word, and the tries so far.
  LockWord holder_;
  bool holder_is_dead_ = false;
  uint32_t tries_ = 0;
  uint32_t unchanged_tries_ = 0;  // in a row that found the same word
  Scheduler::Clock::time_point waits_since_;
  Scheduler::Clock::duration returns_before_{};  // Links::TimeOfWaits at that time
};

}  // namespace gossamer
