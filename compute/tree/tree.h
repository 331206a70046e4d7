// Tree: the B-link tree of a store, as one session works on it.
//
// A client of the layouts in proto/: every operation is a coroutine that posts batches of one-sided verbs and
// validates what comes back. PROTOCOL.md argues each step; comments here count round trips (RT) for 8-byte keys and
// values with a warm cache and no contention:
//
//   get 1 RT | update, insert, delete 2 RT | insert that splits 5 RT | scan 1 RT per 32 leaves
//
// Sources: Lehman & Yao '81 (B-link), Sherman (SIGMOD'22; lock tables, command combining, two-level versions).
//
// Thread-safety: a Tree belongs to its session's thread; what sessions share is in TreeShared.
#pragma once

#include <atomic>
#include <bitset>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/fabric/scheduler.h"
#include "common/random_id.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/cache/node_cache.h"
#include "compute/lock/local_queue.h"
#include "compute/tree/remote_allocator.h"
#include "compute/tree/servers.h"
#include "gossamer/counters.h"
#include "proto/internal_node.h"
#include "proto/leaf.h"

namespace gossamer {

struct TreeOptions {
  uint64_t cache_bytes = uint64_t{256} << 20;
  uint32_t lock_timeout_ms = 10'000;
  uint64_t seed = 0;  // of all random choices; 0: another one each time
};

// What all sessions of a store share.
struct TreeShared {
  TreeShared(const StoreParameters& store_parameters, const TreeOptions& tree_options)
      : parameters(store_parameters),
        geometry(store_parameters.node_bytes),
        options(tree_options),
        seeds(options.seed != 0 ? options.seed : RandomId()),
        cache(options.cache_bytes),
        allocator(servers, store_parameters.node_bytes) {}

  const StoreParameters parameters;
  const LeafGeometry geometry;
  const TreeOptions options;
  std::atomic<uint64_t> seeds;  // each tree takes one
  Servers servers;
  NodeCache cache;
  RemoteAllocator allocator;
  // Makes a memory server known that joined after the store was opened. May block for up to the connection
  // time-out. Called by any session's thread.
  std::function<Status(ServerId)> learn_server;
};

enum class WriteMode : uint8_t { kPut, kInsert, kUpdate, kDelete };

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

  // Whole-node reads, for `check` and repair. Bounded rereads, then under the lock (rule R5).
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

  // One operation's account, added to the counters when the operation ends.
  struct Operation {
    WireCounts wire;
    OperationClass kind = OperationClass::kRead;
    // For speed only: gives up where somebody else holds a lock.
    bool is_repair = false;
  };

  // Bounds rereads of torn or changed units: first at once, then with growing pauses.
  struct RereadLimit {
    uint32_t count = 0;
  };

  // A locked leaf that admits the key, with the units that matter for it.
  struct LockedLeaf {
    Step path;
    LockWord word;
    uint64_t slot = 0;
    LocalQueue::Turn turn;
    uint32_t unit = 0;    // the key's home group
    BufferLease buffers;  // laid out as UnitBuffers
    std::optional<GroupView> home;
    std::optional<GroupView> overflow;  // read when the key may be there, or the caller asked
    RemotePtr leaf() const { return path.node; }
  };

  // -- verbs (tree_wire.cc)
  auto Execute(Operation& operation, Batch& batch) {
    Account(operation, batch);
    ++operation.wire.round_trips;
    return scheduler_.endpoint().Execute(batch);
  }
  auto ExecuteAll(Operation& operation, std::span<Batch* const> batches) {
    for (const Batch* batch : batches) {
      if (batch != nullptr) Account(operation, *batch);
    }
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
  static Error Unreachable(const Batch& batch);
  // InvalidArgument for keys and values that the store cannot hold.
  Status CheckKey(KeyView key) const;
  // Corruption for a pointer outside the servers' memory. Gets to know the server of the first pointer to it.
  Status CheckPointer(RemotePtr pointer, uint64_t bytes);
  Status AttachTo(ServerId server);
  Task<void> Pause(uint32_t attempt);

  // -- descent (tree_descend.cc)
  enum class Trust : uint8_t { kCache, kNothing };
  // With Trust::kNothing, from the root word down by READs alone: where the cache is far behind the tree.
  Task<Result<Step>> Descend(Operation& operation, SearchGoal goal, uint32_t level,
                             Trust trust = Trust::kCache);
  // Of a path whose node does not reach as far as what is sought. One hop to the sibling is cheap; but the root word
  // may be stale by any number of splits (rule R7), and where one hop was not enough, more may be many.
  static bool IsFarOff(const Step& path) { return path.parent.is_null(); }
  Task<Result<Step>> FindLeaf(Operation& operation, KeyView key);
  Task<Result<RootWord>> ReadRoot(Operation& operation);
  Task<Result<InternalNode>> ReadInternal(Operation& operation, RemotePtr pointer);
  Task<Result<BufferLease>> ReadLeafInto(Operation& operation, RemotePtr pointer);
  Task<Status> ReadNodeUnderLock(Operation& operation, RemotePtr pointer, const BufferLease& into);
  void ForgetPath(const Step& path);
  static Error CorruptNode(RemotePtr pointer, std::string_view what);

  // -- reading (tree_read.cc)
  Task<Result<std::string>> GetIn(Operation& operation, KeyView key);
  // The leaf right of `path.node`, for `key`; the cached path is dropped. One READ of group and trailer (rule R3).
  Task<Result<bool>> HopRight(Operation& operation, KeyView key, uint32_t unit, Step& path,
                              const BufferLease& buffers);
  Task<Result<std::optional<std::string>>> ReadBlock(Operation& operation, BlockRef block);
  Status CheckBlock(BlockRef block);
  void LearnOverflow(const Step& path, KeyView key, const GroupView& overflow);

  // -- locks (tree_lock.cc)
  Task<Result<LockedLeaf>> LockLeaf(Operation& operation, KeyView key, Batch* alongside);
  Task<Status> ReadOverflowLocked(Operation& operation, LockedLeaf& locked);
  // Unlocks, and reads the sibling on the way. Null when trailer and group do not agree.
  Task<Result<RemotePtr>> UnlockForSibling(Operation& operation, const LockedLeaf& locked);
  // `old_word` is where the CAS puts what it finds: memory that was there before the lock was taken, so that no
  // failed allocation leaves a lock behind.
  Task<Status> Unlock(Operation& operation, RemotePtr node, LockWord word, uint64_t slot,
                      LocalAddress old_word);
  Task<Status> Unlock(Operation& operation, const LockedLeaf& locked);
  static Status CheckHeld(const Batch& batch, LockWord word);
  // The status of a batch that wrote and, with its last verb, unlocked.
  static Status CommitStatus(const Batch& batch, LockWord word);
  Result<LockWord> WordFor(RemotePtr node, uint64_t& slot);
  Task<Status> BackOff(const Operation& operation, RemotePtr node, uint64_t holder,
                       uint32_t attempt, Scheduler::Clock::time_point since);

  // -- writing (tree_write.cc)
  Task<Status> WriteIn(Operation& operation, WriteMode mode, KeyView key, std::string_view value);
  Task<Status> CommitUnits(Operation& operation, LockedLeaf& locked, bool write_home,
                           bool write_overflow);

  // -- structure (tree_split.cc)
  // Rewrites the locked leaf with `entry` put: in place if it then fits, else by a split. Unlocks in any case.
  // `inserted` stays false when only a split without the entry was possible: try again.
  Task<Status> RewriteLeaf(Operation& operation, LockedLeaf& locked, const Entry& entry,
                           bool& inserted);
  Task<Status> CommitLeaf(Operation& operation, const LockedLeaf& locked, LocalAddress image,
                          RemotePtr sibling, LocalAddress sibling_image);
  Task<Status> UnlockAfter(Operation& operation, const LockedLeaf& locked, Error error);
  // Adds the downlink {separator, child} at `level`, if it is missing.
  Task<Status> InsertIntoParent(Operation& operation, uint32_t level, Key separator,
                                RemotePtr child);
  Task<Result<bool>> RaiseRoot(Operation& operation, RootWord old_root, const Key& separator,
                               RemotePtr child);
  struct LockedParent {
    RemotePtr pointer;
    LockWord word;
    uint64_t slot = 0;
    LocalQueue::Turn turn;
    InternalNode node;
    // The child still exists, with the separator as low fence (rule W4).
    bool child_is_there = false;
    BufferLease buffer;  // two nodes and a lock word
  };
  Task<Result<LockedParent>> LockParent(Operation& operation, uint32_t level, const Key& separator,
                                        RemotePtr child);
  Task<Status> Unlock(Operation& operation, const LockedParent& locked);
  Task<Status> WriteParent(Operation& operation, const LockedParent& locked,
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
    bool is_far_off = false;  // the cache's path was too old: again, without it
  };
  Task<Status> ScanRight(Operation& operation, ScanPosition& position, size_t leaves,
                         ScanPage& page);
  Task<Status> ScanLeft(Operation& operation, ScanPosition& position, size_t leaves,
                        ScanPage& page);
  // READs all of `refs`, at most 32, in 1 RT.
  Task<Status> ReadLeaves(Operation& operation, std::span<const NodeCache::LeafRef> refs,
                          const BufferLease& images);
  // The leaf of `refs[i]`, from its image or, if that is torn, read again. Fails with Corruption if its low fence is
  // not what the parent says.
  Task<Result<BufferLease>> TakeLeaf(Operation& operation, const NodeCache::LeafRef& ref,
                                     std::span<const std::byte> image);
  Task<Status> FillBlocks(Operation& operation, ScanPage& page);

  TreeShared& shared_;
  Scheduler& scheduler_;
  NodeCache::Reader reader_;
  LocalQueue queue_;
  Counters counters_;
  std::bitset<Servers::kMaxServers> attached_;  // servers that this session's endpoint reaches
  uint64_t random_;
  size_t repairs_ = 0;
};

}  // namespace gossamer
