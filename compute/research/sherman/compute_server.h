// ComputeServer: what the client threads of one compute server share: connections, the root, the
// cache, the local locks.
//
// The tree's memory is the memory servers' heap, as the project starts them. No client of the
// product uses these servers, and so their control service has handed nothing out:
//
//   kHeapOffset      8  bytes of the heap that are given to client threads, by fetch-add
//          + 8       8  server 0: the root, a RootWord; 0: the tree has no node yet
//          + 4096       the first leaf, and chunks of kChunkBytes, each of one client thread, which
//                       makes nodes there
//
// The paper asks a memory server's memory thread for chunks of 8 MB. Here that thread would be the
// product's control service with its leases; so a fetch-add of the same round trip asks.
// Chunks are smaller, as stores of tests and benchmarks are. A client thread makes nodes on all
// servers in turn.
//
// Thread-safety: thread-safe, but for Open.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/fabric/compute_port.h"
#include "common/fabric/endpoint.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/research/sherman/design.h"
#include "compute/research/sherman/index_cache.h"
#include "compute/research/sherman/local_locks.h"
#include "proto/region.h"
#include "proto/remote_ptr.h"
#include "proto/store_record.h"

namespace gossamer::sherman {

inline constexpr uint64_t kGivenOffset = kHeapOffset;
inline constexpr uint64_t kRootOffset = kHeapOffset + 8;
inline constexpr uint64_t kChunksOffset = kHeapOffset + 4096;

class ComputeServer {
 public:
  struct MemoryServer {
    ServerId id{0};
    uint64_t region_bytes = 0;
    uint64_t lock_table_bytes = 0;
  };

  // Connects to the memory servers of `record`, and makes the first leaf unless there is a root.
  // `cache_bytes` bounds the cache of level 1.
  // Errors: NodeUnreachable; Corruption if a server has no Gossamer region.
  static Result<std::unique_ptr<ComputeServer>> Open(std::unique_ptr<ComputePort> port,
                                                     const StoreRecord& record,
                                                     const Design& design, uint64_t cache_bytes);

  const Design& design() const { return design_; }
  // By id: a record names servers 0, 1, ... without gaps.
  const std::vector<MemoryServer>& servers() const { return servers_; }
  IndexCache& cache() { return cache_; }
  LocalLocks& locks() { return locks_; }
  Result<std::unique_ptr<Endpoint>> NewEndpoint() { return port_->NewEndpoint(); }

  // The root when it was last read. There may be levels above it by now.
  RootWord root() const { return RootWord::FromWord(root_.load(std::memory_order_acquire)); }
  // Learns of a root that another client made, or this one. An older one, which was read before, is
  // ignored: roots only get higher.
  void SetRoot(RootWord root) {
    uint64_t before = root_.load(std::memory_order_relaxed);
    while ((before == 0 || RootWord::FromWord(before).level() < root.level()) &&
           !root_.compare_exchange_weak(before, root.word(), std::memory_order_acq_rel)) {
    }
  }
  // Whether a node may be there.
  bool HasNodeAt(RemotePtr node) const {
    return ToInteger(node.server()) < servers_.size() && node.offset() >= kChunksOffset &&
           node.offset() + kNodeBytes <= servers_[ToInteger(node.server())].region_bytes;
  }
  // The lock of a node, by a hash of its address. Nodes may share one.
  LockPlace LockOf(RemotePtr node) const;

 private:
  ComputeServer(std::unique_ptr<ComputePort> port, const Design& design, uint64_t cache_bytes)
      : port_(std::move(port)), design_(design), cache_(cache_bytes) {}

  Status Connect(Endpoint& endpoint, ServerId server);
  Task<Status> FindRoot(Endpoint& endpoint);

  const std::unique_ptr<ComputePort> port_;
  const Design design_;
  std::vector<MemoryServer> servers_;
  IndexCache cache_;
  LocalLocks locks_;
  std::atomic<uint64_t> root_ = 0;
};

}  // namespace gossamer::sherman
