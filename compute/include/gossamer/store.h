// Gossamer: an ordered key-value store on disaggregated memory. This is the public C++ interface.
//
//   auto store = gossamer::Store::Open({});             // the default store of this machine
//   if (!store) return Fail(store.error().ToString());
//   auto session = store.value()->NewSession();          // one for each thread
//   session.value()->Put("key", "value");               // all operations: session.h
//   gossamer::Result<std::string> value = session.value()->Get("key");
//
//   gossamer::KeyValue pairs[] = {{"user:1", "Ann"}, {"user:2", "Bo"}};
//   for (const gossamer::Status& put : session.value()->MultiPut(pairs)) …  // one for each pair
//
//   auto cursor = session.value()->Scan({.prefix = "user:"});   // see scan_cursor.h
//   while (cursor->Next()) Use(cursor->key(), cursor->value());
//   if (!cursor->status()) return Fail(cursor->status().error().ToString());
//
// Keys are byte strings of at most `StoreParameters::max_key_bytes`, in memcmp order (encode 64-bit
// integers big-endian). Values are byte strings of at most 1 MiB. Both may contain any bytes.
//
// Thread-safety: all threads may use a Store. One thread at a time may use a Session with its
// cursors and tasks. Operations of all sessions, processes and machines on one key are
// linearizable. A scan returns, for each key, a value that the key had at some time during the
// scan.
//
// Errors (status.h): each call documents its own. In addition, every call may return:
//   - InvalidArgument: key or value too long; nothing was done.
//   - Contended: a lock stayed taken for longer than `lock_timeout_ms`; nothing was done.
//   - NodeUnreachable: a memory server is gone; nothing was written.
//   - Fenced: a lease of this process ended; nothing was written; try again.
//   - Corruption.
//   - NoResources: this machine lacks memory of its own, descriptors or queue pairs; nothing was
//     done.
// Every write may also return:
//   - MaybeApplied: the connection broke during the write; read to find out.
//   - Exhausted: no remote memory; the store stays valid and readable.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/counters.h"
#include "gossamer/device_stat.h"
#include "gossamer/observer.h"
#include "gossamer/rdma_options.h"
#include "gossamer/repair.h"
#include "gossamer/session.h"  // IWYU pragma: export
#include "gossamer/status.h"
#include "gossamer/store_parameters.h"

namespace gossamer {

struct OpenOptions {
  // "memcached://HOST:PORT", "dir:PATH", or empty: the user's default directory
  std::string bootstrap;
  std::string store = "default";
  std::string fabric = "shm";  // or "verbs"
  RdmaOptions rdma = {};       // verbs
  // Bound of the cache of internal nodes; a store of N small records needs about N bytes. A new
  // cache fills itself while it is used, many nodes at a time, if the nodes fit. References to
  // values in blocks, which save gets a round trip, take a quarter as much beside it, if any are
  // read.
  uint64_t cache_bytes = uint64_t{256} << 20;
  // Without the time in which operations wait for a memory server to come back.
  uint32_t lock_timeout_ms = 10'000;
  // For so long an operation waits for a memory server that has ended, and whose memory outlives
  // its process (`gossamer-memory --region`), to come back; then it is NodeUnreachable.
  uint32_t reconnect_ms = 10'000;
  // Whether the program makes room by itself (Session::AsyncEvict). Then a write that gets no
  // memory is Exhausted at once. Otherwise this compute server first gives back what it keeps for
  // other sizes, and waits for others to do so.
  bool makes_room = false;
  uint32_t connection_timeout_ms = 2'000;
  // Sessions that will be open at the same time. verbs: `Store::Open` fails if the limit on locked
  // memory is too low for them.
  uint32_t sessions = 1;
  // Told when the store is open and when it closes; null: none. gossamer/metrics.h has one.
  std::shared_ptr<StoreObserver> observer = {};
};

struct LocalOptions {
  uint64_t memory_bytes = uint64_t{1} << 30;
  StoreParameters parameters;
  uint64_t chunk_bytes = 0;  // 0: chosen from memory_bytes
  // Get all memory from the machine at the start, or fail; reports progress on stderr if it takes
  // long. Otherwise each page at its first use, which a load then waits for.
  bool touch_memory = false;
  uint64_t cache_bytes = uint64_t{256} << 20;
  uint32_t lock_timeout_ms = 10'000;
  std::shared_ptr<StoreObserver> observer = {};  // as in OpenOptions
};

struct ServerStat {
  uint16_t server_id = 0;
  std::string address;
  uint64_t heap_bytes = 0;
  uint64_t free_bytes = 0;          // not handed out to any compute server
  uint64_t node_extent_bytes = 0;   // handed out for nodes
  uint64_t block_extent_bytes = 0;  // handed out for value blocks
  uint64_t waiting_bytes = 0;       // of these: freed, but their owner has not given them up yet
  // Of these: of compute servers that are gone. `MeasureMemory` tells what of it is lost.
  uint64_t orphaned_bytes = 0;
  uint32_t compute_servers = 0;
  bool locks_on_chip = false;
  uint64_t lock_table_bytes = 0;
  std::string lock_table_why;  // it is not on the device, or smaller than was wished; or empty
  std::string unreachable;     // why it cannot be reached; then only id and address are known
};

struct StoreStat {
  std::string store;
  uint64_t store_id = 0;
  std::string fabric;
  StoreParameters parameters;
  std::vector<ServerStat> servers;
  uint32_t levels = 0;  // of the tree; 1: the root is a leaf
};

// The memory of one server. live + free + waiting + lost + kept = heap.
struct MemoryUse {
  uint64_t heap_bytes = 0;
  uint64_t live_bytes = 0;     // of nodes and blocks of the tree
  uint64_t free_bytes = 0;     // not handed out
  uint64_t waiting_bytes = 0;  // freed, but their owner has not given them up yet
  uint64_t kept_bytes =
      0;  // not used yet, or to be used again, by compute servers that are registered
  uint64_t lost_bytes = 0;  // left by compute servers that are gone: `Sweep` gives them back
};

// What a store uses its memory for.
struct StoreUse {
  std::map<uint32_t, MemoryUse> servers;  // by their ids
  uint64_t keys = 0;
  // `keys` follows from the number of the tree's leaves and the keys of some of them.
  bool keys_are_estimated = false;
};

// A leaf of the tree, by how often it is used.
struct HotLeaf {
  uint16_t server_id = 0;
  uint64_t offset = 0;      // of the leaf, in that server's memory
  std::string key;          // the least of its keys that were sampled; of a long one the beginning
  uint64_t operations = 0;  // estimated from samples; older ones count less and less
};

// How far a sweep is.
struct SweepProgress {
  enum class Step : uint8_t { kList, kFirstEpoch, kTree, kSecondEpoch, kGiveBack };
  Step step = Step::kList;
  uint64_t nodes = 0;     // of the tree, read so far
  std::string waits_for;  // the process that has not ended its earlier operations yet; or empty
};

struct SweepReport {
  bool was_stopped = false;  // as `progress` asked; then nothing was given back
  struct Server {
    uint64_t swept_bytes = 0;  // given back
    uint64_t left_bytes =
        0;  // of compute servers that are gone from this server, but not from others
  };
  std::map<uint32_t, Server> servers;  // by id
};

// What `Store::Check` found. A tree without `problems` obeys every invariant.
struct CheckReport {
  uint64_t keys = 0;
  uint64_t expired_keys = 0;  // others, which have expired and still take memory
  uint64_t leaves = 0;
  uint64_t internal_nodes = 0;
  uint64_t blocks = 0;
  uint64_t key_bytes = 0;
  uint64_t inline_value_bytes = 0;
  uint64_t block_value_bytes = 0;
  uint64_t overflow_keys = 0;
  uint32_t levels = 0;
  uint64_t missing_downlinks = 0;  // nodes reached only through a sibling pointer: legal, but slow
  uint64_t locks_held = 0;         // by live compute servers
  uint64_t locks_of_the_dead = 0;  // left by dead compute servers; this check released them
  std::map<uint32_t, uint64_t> nodes_per_server;  // by server id, for all known servers
  std::map<uint32_t, MemoryUse> memory;           // likewise
  std::vector<std::string> problems;  // at most 100, each a sentence with pointer and numbers
  uint64_t problem_count = 0;

  double keys_per_leaf() const {
    return leaves == 0 ? 0.0 : static_cast<double>(keys) / static_cast<double>(leaves);
  }
  // Bytes of leaves for each key: leaves * node_bytes / keys.
  double leaf_bytes_per_key = 0;
};

class Store {
 public:
  // Opens an existing store through its bootstrap.
  // Errors: NotFound if there is no store of that name. NodeUnreachable if the bootstrap or server
  // 0, which holds the root, does not answer (the message says if the record may be of a dead
  // server). Unsupported if this machine has no such fabric. InvalidArgument if the store has
  // another one. Those of the observer.
  static Result<std::unique_ptr<Store>> Open(const OpenOptions& options);
  // Reads all that memory servers of a store still have, also if its root is lost: looks at each
  // node in their memory for leaves that are whole, and calls `emit` for what these have, also
  // expired, in the order of keys. Returns early if that returns false. For a store that no client
  // changes meanwhile. What a lost node knew is missing: a leaf that was split or merged may be
  // told from its later states only while a neighbour or a parent is left. So a key may come with
  // an older value, or though it was deleted.
  // Errors: NotFound: there is no record of the store. NodeUnreachable: none of its servers
  // answers, or the bootstrap.
  static Result<SalvageReport> Salvage(const OpenOptions& options,
                                       const std::function<bool(const KeyValueView&)>& emit);
  // Creates a store in this process, with its own memory server. Both end with the Store.
  // Errors: those of the observer.
  static Result<std::unique_ptr<Store>> OpenLocal(const LocalOptions& options);

  virtual ~Store() = default;

  // Returns a session for one thread. The store must outlive it.
  virtual Result<std::unique_ptr<Session>> NewSession() = 0;

  virtual const StoreParameters& parameters() const = 0;
  // What all sessions have counted so far, also those that have ended. One more session, of the
  // store itself, counts the merges that it does in the background. Cost: some 100 ns for each
  // session; operations are not disturbed.
  virtual Counters counters() const = 0;
  // Sessions that are open, with the store's own, which begins with the first merge.
  virtual size_t sessions() const = 0;
  // The leaves that the open sessions use most by gets and writes, those first; at most `most`, and
  // at most a few dozen.
  virtual std::vector<HotLeaf> HotLeaves(size_t most) const = 0;
  // The RDMA device by which memory servers are reached; none over shared memory. Takes no time.
  virtual DeviceStat Device() const { return {}; }
  // Memory servers that cannot be reached are part of it, but for server 0, which holds the root.
  // Errors: NodeUnreachable if server 0 cannot be reached. NotFound if so, and another store has
  // the name now: this one is gone for good. Close it, and open the store again to use that one.
  virtual Result<StoreStat> Stat() = 0;
  // Reads the tree, and tells what the memory of each server is used for, and for how many keys. If
  // others write meanwhile, a part of what they changed counts as it was before. Calls `progress`,
  // unless empty, now and then with the number of nodes read.
  // Errors: NodeUnreachable if a memory server cannot be reached.
  // Cost: 1 RT for each node; if the store has no value blocks, for 400 of the leaves at most.
  virtual Result<StoreUse> MeasureMemory(const std::function<void(uint64_t nodes)>& progress) = 0;
  // Walks the whole tree and verifies every invariant: fences, order, sibling chain, checksums,
  // reachability, no lock left, allocation. Meaningful only while no client writes. Calls
  // `progress` now and then with the number of leaves done.
  virtual Result<CheckReport> Check(const std::function<void(uint64_t leaves)>& progress) = 0;
  // Gives back the memory that compute servers left behind that are gone: what they had not used,
  // and nodes and blocks that are not part of the tree. Others may work meanwhile; several may
  // sweep. Calls `progress`, unless empty, now and then, and ends early if that returns false.
  // Errors: NodeUnreachable if a memory server cannot be reached. Contended if a compute server
  // does not end the operations that it began before the sweep.
  virtual Result<SweepReport> Sweep(const std::function<bool(const SweepProgress&)>& progress) = 0;
  // Whether a compute server has ended since the last sweep without having given back the memory
  // that it did not use.
  // Errors: NodeUnreachable if a memory server cannot be reached. Cost: 1 RT for each memory
  // server.
  virtual Result<bool> NeedsSweep() = 0;
  // As Sweep, if that is needed, and unless another compute server is at it in this way: otherwise
  // nullopt.
  virtual Result<std::optional<SweepReport>> SweepIfNeeded(
      const std::function<bool(const SweepProgress&)>& progress) = 0;
  // Mends the tree after memory servers were lost that the store's record does not name any more:
  // ranges of keys whose nodes are lost become empty, and keys whose blocks are lost are deleted.
  // All of it can be written again then. Others may work meanwhile, and several may repair. With
  // `dry_run` nothing is changed. Calls `progress`, unless empty, now and then with the number of
  // nodes read, and ends early if it returns false. Another repair goes on then.
  // Errors: NodeUnreachable if a memory server of the record cannot be reached, if one may still
  // come back with its saved file, or if the root is lost. Contended if the tree is mended, and a
  // compute server has not ended the operations that it began before: these may still fail.
  virtual Result<RepairReport> Repair(bool dry_run,
                                      const std::function<bool(uint64_t nodes)>& progress) = 0;
};

}  // namespace gossamer
