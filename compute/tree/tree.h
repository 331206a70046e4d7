// Tree: the B-link tree of a store, as one session works on it.
//
// A client of the layouts in proto/: every operation is a coroutine that posts batches of one-sided verbs and
// validates what comes back. PROTOCOL.md argues each step; comments here count round trips (RT) for 8-byte keys and
// values with a warm cache and no contention:
//
//   get 1 RT | update, insert, delete 2 RT, with a lock handed over 1 RT | insert that splits 3 RT, 4 RT if the leaf was
//   not known to be full | scan 1 RT per 32 leaves
//
// Sources: Lehman & Yao '81 (B-link), Sherman (SIGMOD'22; lock tables, command combining, two-level versions).
//
// Thread-safety: a Tree belongs to its session's thread; what sessions share is in TreeShared.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/fabric/scheduler.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/cache/node_cache.h"
#include "compute/lock/lock_table.h"
#include "compute/node/unit_buffers.h"
#include "compute/session/servers.h"
#include "compute/tree/leaf_edit.h"
#include "compute/tree/leaf_editor.h"
#include "compute/tree/tree_shared.h"
#include "gossamer/counters.h"
#include "gossamer/store.h"
#include "proto/internal_node.h"
#include "proto/leaf.h"

namespace gossamer {

// Where a scan stands, and which way it goes.
struct ScanPosition {
  bool reverse = false;
  Key from;         // forward: the next key is not below this
  HighFence below;  // reverse: the next key is below this
  bool done = false;
};

struct ScannedEntry {
  std::string key;
  std::string value;
};

// What a scan that steps over what it cannot reach has found out.
struct Salvage {
  std::vector<MissingKeys> missing;  // in order; nothing is there twice
  std::map<ServerId, Error> lost;    // servers that could not be reached, and why

  // The range joins the one before where it goes on for the same reason.
  void Add(KeyView from, const HighFence& end, const Error& why);
};

class Tree {
 public:
  Tree(TreeShared& shared, Scheduler& scheduler);

  Task<Result<std::string>> Get(KeyView key);
  // kDelete ignores `value`.
  Task<Status> Write(WriteMode mode, KeyView key, std::string_view value);
  // Appends the entries of the next `leaves` leaves (at most 32), in scan order, and advances `position`.
  // 1 RT with a warm cache, and one more where there are value blocks.
  Task<Status> ScanLeaves(ScanPosition& position, size_t leaves,
                          std::vector<ScannedEntry>& entries);

  // The same for one leaf, in ascending order, in a store of which parts cannot be reached: what cannot be read is
  // stepped over and added to `salvage`. Fails where the root word cannot be read: then nothing can. Levels + 2 RT.
  Task<Status> SalvageLeaf(ScanPosition& position, std::vector<ScannedEntry>& entries,
                           Salvage& salvage);

  // Reads by pointer, for `check`: of whole nodes, and of blocks. A lost queue pair is replaced, and a server that the
  // store has not met yet is connected to. Bounded rereads, then under the lock (rule R5).
  Task<Result<InternalNode>> ReadInternal(RemotePtr pointer);
  // The bytes of a leaf of which LeafView::Parse is known to succeed.
  Task<Result<std::vector<std::byte>>> ReadLeaf(RemotePtr pointer);
  // The value that a block holds; nothing if the block is not the one that `block` means.
  Task<Result<std::optional<std::string>>> ReadBlock(BlockRef block);
  // Reads the root word by fetch-add of 0 and remembers it.
  Task<Result<RootWord>> ReadRoot();

  Counters& counters() { return counters_; }
  const TreeShared& shared() const { return shared_; }
  Scheduler& scheduler() { return scheduler_; }
  // Tasks that this tree started by itself (split repairs) and that still run.
  size_t background() const { return repairs_; }

 private:
  using Step = NodeCache::Step;
  // At most so many READs go out with a lock's CAS (where that is not enough, the leaf is read whole), and so many
  // WRITEs of units with its release.
  static constexpr int kMaxReads = 3;
  static constexpr int kMaxWrites = 8;
  // What stays torn for so many rereads is read under its lock; what fails its checks there through so many fresh
  // descents is corrupt (rule R5).
  static constexpr uint32_t kMaxRereads = 24;
  static constexpr uint32_t kMaxFailures = 4;
  // Likewise a leaf that leads to no sibling so many times, as group and trailer do not agree.
  static constexpr uint32_t kMaxDisagreements = 16;
  // A put is taken for an insert if one of the session's last so many puts was one.
  static constexpr uint32_t kPutsRemembered = 32;
  // What is put behind all but this fraction of the last node is taken for part of an ascending load.
  static constexpr size_t kEdgeFraction = 8;

  // One operation's account, added to the counters when the operation ends.
  struct Operation {
    WireCounts wire;
    OperationClass kind = OperationClass::kRead;
    // For speed only: gives up where somebody else holds a lock.
    bool is_repair = false;
    // What went wrong with the fabric: see Recover.
    uint64_t posted_at = 0;  // Tree::recoveries_ when it last posted
    uint32_t losses = 0;
    uint32_t retries = 0;
    // The server that an error is about, and posted_at when it was lost.
    std::optional<ServerId> lost;
    uint64_t lost_at = 0;
    // What failed concerns only the memory that was allocated: other memory may do, wherever that is.
    bool needs_other_memory = false;
    // What failed is that no server gave memory, of which one was lost.
    bool lacks_memory = false;
    // A server that was passed over as it gave no memory, and posted_at then.
    std::optional<ServerId> passed_over;
    uint64_t passed_over_at = 0;
  };

  // This session's queue pair to a memory server.
  struct Link {
    // That it belongs to (rule L4): what was locked under another lease is not this session's any more. Incarnation 0:
    // not registered yet.
    Lease lease;
    uint64_t recovered_at = 0;  // recoveries_ when it was replaced
    bool is_busy = false;       // being replaced, or registered
    bool is_down = false;       // could not be replaced: nothing is posted until it can
    Scheduler::Clock::time_point failed_at{};
    Error why{Code::kNodeUnreachable, {}};  // it could not be replaced
  };

  // A node's lock: while its turn is waited for, while it is tried, and while it is held.
  struct NodeLock {
    RemotePtr node;
    LockPlace place;
    LockTable::Turn turn;  // none without hierarchical locks
    HeldLock held;
    // While somebody else has it.
    LockWord holder;
    bool holder_is_dead = false;  // fenced: its lock may be taken (rule L6)
    uint32_t tries = 0;
    uint32_t unchanged_tries = 0;  // the last ones, which all found the same holder's word
    Scheduler::Clock::time_point since;
    // What the next commit under it makes reachable (rule U4).
    LinkedMemory links;
  };

  // A leaf under its lock.
  struct LockedLeaf {
    Step path;
    NodeLock lock;
    BufferLease buffers;  // laid out as LockedBuffers
    std::optional<LeafEditor> editor;
    std::optional<TrailerView> trailer;  // once the leaf was read whole
    RemotePtr leaf() const { return path.node; }
    const GroupView& unit(uint32_t number) const { return editor->Unit(number); }
  };

  // -- verbs (tree_wire.cc)
  auto Execute(Operation& operation, Batch& batch) {
    Account(operation, batch);
    operation.posted_at = recoveries_;
    ++operation.wire.round_trips;
    return scheduler_.endpoint().Execute(batch);
  }
  auto ExecuteAll(Operation& operation, std::span<Batch* const> batches) {
    for (const Batch* batch : batches) {
      if (batch != nullptr) Account(operation, *batch);
    }
    operation.posted_at = recoveries_;
    ++operation.wire.round_trips;
    return scheduler_.endpoint().ExecuteAll(batches);
  }
  static void Account(Operation& operation, const Batch& batch);
  // An operation that failed adds its verbs, but is none that was done.
  void Finish(const Operation& operation, OperationClass kind, const Error* error);
  Result<BufferLease> Buffer(size_t bytes) {
    return scheduler_.endpoint().buffers().Allocate(bytes);
  }
  // The error of a batch that wrote nothing which matters.
  static Error Unreachable(Operation& operation, const Batch& batch);
  // InvalidArgument for keys and values that the store cannot hold.
  Status CheckKey(KeyView key) const;
  // Corruption for a pointer outside the servers' memory. Gets to know the server of the first pointer to it.
  Status CheckPointer(RemotePtr pointer, uint64_t bytes);

  // -- lost queue pairs (tree_recover.cc)
  // Sees to it that the queue pair to `server`, on which something of `operation` has just failed, is replaced, and the
  // old one destroyed (rule U1). NodeUnreachable if that cannot be done, or has been done too often.
  Task<Status> Recover(Operation& operation, ServerId server);
  Task<Status> ReplaceQueuePair(ServerId server);
  // Until no other coroutine replaces its queue pair, or registers.
  Task<void> AwaitIdle(const Link& link);
  // Sees to it that the lease is known that the queue pair to `server` belongs to.
  Task<Status> Register(Operation& operation, ServerId server);
  // Whether the operation, which wrote nothing and failed with `error`, is to be done again. If not, `error` says why.
  Task<bool> ShouldRetry(Operation& operation, Error& error);
  // What `read`, which writes nothing, returns at last.
  template <typename Read>
  auto Retried(Operation& operation, Read read) -> decltype(read());
  const Lease& LeaseWith(ServerId server) const { return links_[ToInteger(server)].lease; }
  // Memory of any server; a server that was lost is noted in `operation`.
  Task<Result<Allocated<RemotePtr>>> AllocateNode(Operation& operation, ServerId near,
                                                  NodeKind kind);
  Task<Result<Allocated<BlockPtr>>> AllocateBlock(Operation& operation, uint32_t length);
  static void NotePassedOver(Operation& operation, std::optional<ServerId> lost, bool has_memory);
  template <typename Pointer, typename Allocate>
  Task<Result<Allocated<Pointer>>> AllocateInReach(Operation& operation, Allocate allocate);
  // Replaces the queue pair of a server that was passed over, once no lock is held.
  void TendPassedOver(Operation& operation);
  Task<void> RecoverPassedOver(ServerId server, uint64_t lost_at);
  static void NoteLoss(Operation& operation, ServerId server) {
    operation.lost = server;
    operation.lost_at = operation.posted_at;
  }
  // Executes READs under a lock, on whatever queue pair of the lock's epoch. Fenced: there is none any more.
  Task<Status> ExecuteHeld(Operation& operation, const NodeLock& lock, Batch& reads);
  // What became of a lock, which may be held as `held`, cannot be found out now: the store sees to it (rule U5).
  void Orphan(NodeLock& lock, HeldLock held);
  // Until the place of `lock`, which is closed, may be open again. NodeUnreachable: that is not in sight.
  Task<Status> AwaitSettled(const Operation& operation, NodeLock& lock);
  // Executes the WRITE of a node that nothing leads to yet.
  Task<Status> WriteUnseen(Operation& operation, ServerId server, const Verb& write);
  // The lock word, once the queue pair is replaced on which something was posted under `held` (rules U1, U2), and this
  // session's lease known. An error: it cannot be found out now, and the lock is orphaned.
  Task<Result<uint64_t>> FindLockWord(Operation& operation, NodeLock& lock, HeldLock held,
                                      LocalAddress word_at);
  // The lock word as it is now.
  Task<Result<uint64_t>> ReadLockWord(Operation& operation, const NodeLock& lock,
                                      LocalAddress word_at);
  // What a commit is to be known by: the version that it gave a node, where that changed its structure.
  struct NewVersion {
    RemotePtr node;
    uint32_t level = 0;
    NodeVersion version{0};
  };
  // After a batch that wrote under the lock `held`, and then perhaps released it, has ended in an unknown way (rule
  // U2). True: it was applied, to the end. False: it is to be posted again. MaybeApplied otherwise.
  enum class AndThen : uint8_t { kUnlock, kKeep };
  Task<Result<bool>> Settle(Operation& operation, NodeLock& lock, const HeldLock& held,
                            AndThen and_then, const std::optional<NewVersion>& changed,
                            LocalAddress word_at);
  Task<Result<bool>> HasVersion(Operation& operation, const NodeLock& lock,
                                const NewVersion& changed);
  // The same for a CAS that released it. Fenced: the lock is not this compute server's any more.
  Task<Status> SettleUnlock(Operation& operation, NodeLock& lock, const HeldLock& held,
                            LocalAddress word_at);

  // What must still be so when a verb of a commit is posted.
  struct CommitGuard {
    Lease epoch;
    const LinkedMemory& links;
  };
  // Executes the verbs of `batch` in their order: in one round trip, or one by one without command combining; then
  // those of a commit only as long as `guard` allows.
  Task<void> ExecuteInOrder(Operation& operation, Batch& batch, const CommitGuard* guard = nullptr);
  Task<void> Pause(uint32_t attempt);
  uint64_t Random(uint64_t below);

  // -- descent (tree_descend.cc)
  enum class Trust : uint8_t { kCache, kNothing };
  // With Trust::kNothing, from the root word down by READs alone: where the cache is far behind the tree.
  Task<Result<Step>> Descend(Operation& operation, SearchGoal goal, uint32_t level,
                             Trust trust = Trust::kCache);
  // Of a path whose node does not reach as far as what is sought. One hop to the sibling is cheap; but the root word
  // may be stale by any number of splits (rule R7), and where one hop was not enough, more may be many.
  static bool IsFarOff(const Step& path) { return path.parent.is_null(); }
  Task<Result<Step>> FindLeaf(Operation& operation, KeyView key);
  // Without verbs: nothing if some node of the path is not cached.
  std::optional<Step> FindCachedLeaf(KeyView key);
  void Remember(RemotePtr pointer, const InternalNode& node) {
    counters_.cache.evictions += shared_.cache.Insert(pointer, node);
  }
  Task<Result<RootWord>> ReadRoot(Operation& operation);
  Task<Result<InternalNode>> ReadInternal(Operation& operation, RemotePtr pointer);
  Task<Result<BufferLease>> ReadLeafInto(Operation& operation, RemotePtr pointer);
  // Where a leaf ends, and what comes behind it.
  struct LeafEnd {
    HighFence high;
    RemotePtr sibling;
  };
  Task<Result<LeafEnd>> ReadLeafEnd(Operation& operation, RemotePtr pointer);
  // READs a node into `into` until accept(bytes) says that it is valid.
  template <typename Accept>
  Task<Status> ReadNode(Operation& operation, RemotePtr pointer, LocalAddress into, Accept accept);
  Task<Status> ReadNodeUnderLock(Operation& operation, RemotePtr pointer, LocalAddress into);
  void ForgetPath(const Step& path);
  static Error CorruptNode(RemotePtr pointer, std::string_view what);

  // -- reading (tree_read.cc)
  Task<Result<std::string>> GetIn(Operation& operation, KeyView key);
  Task<Result<std::string>> GetUnderLock(Operation& operation, KeyView key);
  std::optional<TrailerView> ParseTrailer(std::span<const std::byte> bytes, RemotePtr leaf) const;
  // The leaf right of `path.node`, for `key`; the cached path is dropped. One READ of group and trailer (rule R3).
  Task<Result<bool>> HopRight(Operation& operation, KeyView key, uint32_t unit, Step& path,
                              const BufferLease& buffers);
  Task<Result<std::optional<std::string>>> ReadBlock(Operation& operation, BlockRef block);
  Status CheckBlock(BlockRef block);
  static std::optional<std::string_view> ValueIn(const BlockRef& block,
                                                 std::span<const std::byte> bytes);
  // Puts the hint of the leaf right: `known` are units that have been seen, of which unit_at(number) is a view.
  template <typename UnitAt>
  void Learn(const Step& path, uint32_t known, UnitAt&& unit_at) {
    if (path.parent.is_null()) return;
    const HintPatch patch = PatchOf(shared_.geometry, known, unit_at);
    if (patch.AppliedTo(path.hint) == path.hint) return;
    shared_.cache.PatchHint(reader_, path.parent, path.low.view(), path.node, patch);
  }

  // -- locks (tree_lock.cc)
  // Makes `lock`, which is not held, the one of `node`.
  Status AimAt(NodeLock& lock, RemotePtr node);
  // The turn at `lock`, and what came with it.
  Task<LockTable::Answer> TakeTurn(NodeLock& lock, LockTable::Wish* wish);
  // Takes the lock, unless it is held already, and READs `reads` under it. `alongside`, a batch of the caller's that is
  // not null, goes out at the same time. False: somebody else has the lock; nothing that was read counts (rule R4).
  // `word_at` is where the CAS puts what it finds.
  Task<Result<bool>> TryLock(Operation& operation, NodeLock& lock, std::span<const Verb> reads,
                             LocalAddress word_at, Batch* alongside = nullptr);
  bool HasWaitedLong(NodeLock& lock) const;
  // Contended: says who has the lock, which its memory server is asked about. 1 RT, 1 SEND.
  Task<Error> Late(const NodeLock& lock);
  // After TryLock said false. Contended when that has lasted too long.
  Task<Status> BackOff(const Operation& operation, NodeLock& lock);
  void LearnRoundTrip(std::chrono::nanoseconds took);
  // The longest pause before the next try at `lock`.
  uint64_t LongestPauseNs(const NodeLock& lock) const;
  // `word_at` is memory that was there before the lock was taken, so that no failed allocation leaves a lock behind.
  Task<Status> Unlock(Operation& operation, NodeLock& lock, LocalAddress word_at);
  // Executes `batch`, whose WRITEs are ordered, and then unlocks or keeps the lock. `changed`, where it changes the
  // structure. MaybeApplied when that cannot be known; other errors: nothing was written.
  Task<Status> Commit(Operation& operation, NodeLock& lock, Batch& batch, LocalAddress word_at,
                      AndThen and_then, const std::optional<NewVersion>& changed = {});
  // The turn, and the lock that is kept, go to `next`.
  void HandOver(NodeLock& lock, LockTable::Waiter& next);
  // Who may get the lock without releasing it, if anybody.
  LockTable::Waiter* NextFor(NodeLock& lock);
  // Fenced, if the lock was taken under another lease than the one whose queue pair would be used now (rule L4). To be
  // asked in the step that posts, and with that lease known.
  Status CheckEpoch(Operation& operation, const NodeLock& lock, const HeldLock& held) const;
  // The same, once it is known. Nothing is awaited between the answer and the caller's going on. If it cannot be known,
  // the server is out of reach, and the lock is orphaned.
  Task<Status> EnterEpoch(Operation& operation, NodeLock& lock, HeldLock held);
  // Fenced, if what `links` names must not become reachable from a node on `server` any more (rule U4): the operation
  // needs other memory. To be asked in the step that posts.
  Status CheckLinks(Operation& operation, const LinkedMemory& links, ServerId server) const;
  static Verb ReleaseVerb(const NodeLock& lock, const HeldLock& held, LocalAddress word_at);
  static Status CheckReleased(uint64_t found, const NodeLock& lock, const HeldLock& held);
  // What this compute server would write into the lock's word now.
  LockWord WordFor(const NodeLock& lock);
  Task<Status> FindOut(Operation& operation, NodeLock& lock, LockWord word, LocalAddress word_at);
  // A lock that is held, or was handed over, is one of the lease whose queue pair will be used. Fenced: it is not any
  // more, and what is known of its node is void (rule L5).
  Task<Status> CheckHandedOver(Operation& operation, NodeLock& lock);

  // -- locked leaves (tree_lock_leaf.cc)
  // The leaf for `write`, locked, with the write's home group known. False: somebody else did the write, which is
  // possible only if `may_be_granted`. `alongside`, a batch of the caller's or null, goes out with the first try.
  Task<Result<bool>> LockLeaf(Operation& operation, LeafWrite& write, bool may_be_granted,
                              Batch* alongside, LockedLeaf& locked);
  uint32_t WantedUnits(LockedLeaf& locked, const LeafWrite& write);
  Task<Status> LeaveStaleLeaf(Operation& operation, LockedLeaf& locked, const LeafWrite& write,
                              bool is_valid, bool& afresh);
  Task<Result<RemotePtr>> UnlockForSibling(Operation& operation, LockedLeaf& locked, RemotePtr leaf,
                                           uint32_t unit);
  Verb ReadUnitVerb(const LockedLeaf& locked, uint32_t number) const;
  // Of the bytes in the image. False if they do not fit what is known.
  bool AcceptTrailer(LockedLeaf& locked) const;
  Task<Status> ReadOverflow(Operation& operation, LockedLeaf& locked);
  // All units, and the trailer.
  Task<Status> ReadRest(Operation& operation, LockedLeaf& locked);
  Task<Status> Unlock(Operation& operation, LockedLeaf& locked) {
    return Unlock(operation, locked.lock, locked.buffers.address(LockedBuffers::kUnlockWord));
  }
  // The error, or that of unlocking.
  Task<Status> UnlockAfter(Operation& operation, LockedLeaf& locked, Error error);

  // -- writing (tree_write.cc)
  Task<Status> WriteIn(Operation& operation, WriteMode mode, KeyView key, std::string_view value);
  // Does `write`, and what waiters wish for the leaf. `done` becomes false when the leaf had to be split without it:
  // try again. Unlocks in any case, or hands the lock over.
  Task<Status> EditLeaf(Operation& operation, LockedLeaf& locked, LeafWrite& write, bool& done);
  LockTable::WaiterList GrantWishes(LockedLeaf& locked);
  Task<Status> CommitUnits(Operation& operation, LockedLeaf& locked, AndThen and_then);
  Task<Status> CommitWhole(Operation& operation, LockedLeaf& locked, AndThen and_then);
  void HandOverLeaf(LockedLeaf& locked, LockTable::Waiter& next);

  // -- structure (tree_split.cc)
  // A parent under its lock.
  struct LockedParent {
    NodeLock lock;
    BufferLease buffers;  // laid out as LockedBuffers of two nodes: the parent, and its child
    InternalNode node;
    // The child still exists, with the separator as low fence (rule W4).
    bool child_is_there = false;
    // The lock was tried, and everything read, along with the leaf's commit or before it.
    bool is_tried = false;
    // Its lock was had before the child could be known to anybody.
    bool is_before_child = false;
  };
  // A leaf that is to be arranged anew.
  struct Rearrangement {
    LeafRewrite rewrite;
    std::vector<Entry> before;
    std::vector<Entry> after;  // the write's own entry last
    BufferLease images;        // of the leaf and, behind it, a sibling

    std::span<std::byte> image(uint32_t node_bytes, uint32_t number) const {
      return {images.data() + size_t{number} * node_bytes, node_bytes};
    }
  };
  // Rewrites the locked leaf with `write` done: in place if it then fits, else by a split. Unlocks in any case. Not
  // `done`: the leaf was split, and the write is to be tried again.
  Task<Status> RewriteLeaf(Operation& operation, LockedLeaf& locked, LeafWrite& write, bool& done);
  Task<Status> SplitLeaf(Operation& operation, LockedLeaf& locked, LeafWrite& write,
                         Rearrangement& leaf, bool& done);
  // The separator; nothing: the leaf cannot be split.
  std::optional<Key> EncodeHalves(LeafWrite& write, const Rearrangement& leaf, bool& done) const;
  Task<Status> CommitSplit(Operation& operation, LockedLeaf& locked, RemotePtr sibling,
                           LocalAddress left, LocalAddress right, const NewVersion& changed,
                           LockedParent& parent);
  Task<Status> CommitBehindSibling(Operation& operation, LockedLeaf& locked,
                                   const Verb& write_sibling, ServerId server, Batch& batch,
                                   const NewVersion& changed, LockedParent& parent);
  Task<Status> CommitAgain(Operation& operation, LockedLeaf& locked, const HeldLock& held,
                           const Batch& batch, size_t writes, const NewVersion& changed);
  // Puts the hint of a leaf, which has `key`, right by what was written.
  void LearnRewritten(RemotePtr parent, KeyView key, RemotePtr leaf,
                      std::span<const std::byte> image);
  // Prepares `parent` for its lock to be tried with the commit of `locked`. False if that is not possible.
  Task<bool> CanFuse(Operation& operation, const LockedLeaf& locked, LockedParent& parent);

  // -- parents (tree_parent.cc)
  // Adds the downlink {separator, child} at `level`, if it is missing. `parent` may have been tried already.
  Task<Status> InsertIntoParent(Operation& operation, uint32_t level, Key separator,
                                RemotePtr child, LockedParent parent);
  Task<Result<bool>> RaiseRoot(Operation& operation, RootWord old_root, const Key& separator,
                               RemotePtr child);
  Task<Status> LockParent(Operation& operation, uint32_t level, const Key& separator,
                          RemotePtr child, LockedParent& parent);
  Status AllocateBuffers(LockedParent& parent);
  // What to READ behind the parent's CAS: the parent and, if it is on the same server, the child's low fence.
  uint32_t ParentReads(const LockedParent& parent, uint32_t level, RemotePtr child,
                       std::span<Verb, 2> reads) const;
  Verb ReadParent(const LockedParent& parent) const;
  Verb ReadChild(const LockedParent& parent, uint32_t level, RemotePtr child) const;
  bool ChildMatches(const LockedParent& parent, uint32_t level, const Key& separator,
                    RemotePtr child) const;
  Task<Status> Unlock(Operation& operation, LockedParent& parent) {
    return Unlock(operation, parent.lock, parent.buffers.address(LockedBuffers::kUnlockWord));
  }
  Task<Status> WriteParent(Operation& operation, LockedParent& parent,
                           std::optional<InternalNode>& right, RemotePtr right_pointer);
  void ScheduleRepair(RemotePtr left, uint32_t level);
  Task<void> Repair(RemotePtr left, uint32_t level);
  Task<Status> RepairIn(Operation& operation, RemotePtr left, uint32_t level);

  // -- scanning (tree_scan.cc)
  // What a scan has found: entries in order, and those of them whose value is still in a block.
  struct ScanPage {
    std::vector<ScannedEntry>& entries;
    std::vector<std::pair<size_t, BlockRef>> blocks;
    Trust trust = Trust::kCache;
    bool is_far_off = false;   // the cache's path was too old: again, without it
    std::vector<size_t> gone;  // entries that FillBlocks found deleted
  };
  Task<Status> ScanRight(Operation& operation, ScanPosition& position, size_t leaves,
                         ScanPage& page);
  Task<Status> ScanLeft(Operation& operation, ScanPosition& position, size_t leaves,
                        ScanPage& page);
  // Leaves that were read together: as the parents know them, and their bytes, not validated yet.
  struct LeafRun {
    std::vector<NodeCache::LeafRef> refs;
    BufferLease images;
  };
  Task<Result<LeafRun>> ReadRun(Operation& operation, const ScanPosition& position, size_t leaves,
                                Trust trust);
  // READs all of `refs`, at most 32, in 1 RT.
  Task<Status> ReadLeaves(Operation& operation, std::span<const NodeCache::LeafRef> refs,
                          const BufferLease& images);
  // The leaf of `refs[i]`, from its image or, if that is torn, read again. Fails with Corruption if its low fence is
  // not what the parent says. Its hint is put right.
  Task<Result<BufferLease>> TakeLeaf(Operation& operation, const NodeCache::LeafRef& ref,
                                     std::span<const std::byte> image);
  // From a leaf that ends before its parent's next to its sibling, whose downlink is made later (rule W6). False: the
  // page has become far off.
  Result<bool> MoveToSibling(const LeafView& leaf, ScanPage& page, NodeCache::LeafRef& ref);
  static void Emit(const LeafView& leaf, const ScanPosition& position, ScanPage& page);
  Task<Status> FillBlocks(Operation& operation, ScanPage& page);

  // -- salvage (tree_salvage.cc)
  // The leaf for a key, as far as nodes can be read.
  struct ReachedLeaf {
    RemotePtr leaf;  // null: it cannot be found, and `why`
    HighFence end;   // the next separator that is known
    Error why{Code::kNodeUnreachable, {}};
  };
  Task<Status> SalvageRange(Operation& operation, ScanPosition& position, ScanPage& page,
                            Salvage& salvage);
  Task<Result<ReachedLeaf>> ReachLeaf(Operation& operation, KeyView from, Salvage& salvage);
  Task<Status> SalvageBlocks(Operation& operation, ScanPage& page, Salvage& salvage);
  Task<Result<bool>> FillBlocksOf(Operation& operation, ScanPage& page);
  template <typename Read>
  auto SalvageRead(Operation& operation, ServerId server, Salvage& salvage, Read read)
      -> decltype(read());

  TreeShared& shared_;
  Scheduler& scheduler_;
  NodeCache::Reader reader_;
  Counters counters_;
  std::array<Link, Servers::kMaxServers> links_{};
  uint64_t recoveries_ = 0;  // queue pairs replaced
  uint32_t puts_since_insert_ = 0;
  uint64_t random_;
  uint64_t round_trip_ns_ = 1000;  // about what a contended try at a lock takes
  size_t repairs_ = 0;
};

template <typename Read>
auto Tree::Retried(Operation& operation, Read read) -> decltype(read()) {
  for (;;) {
    auto result = co_await read();
    if (result) co_return std::move(result);
    Error error = result.error();
    const bool again = co_await ShouldRetry(operation, error);
    if (!again) co_return error;
  }
}

}  // namespace gossamer
