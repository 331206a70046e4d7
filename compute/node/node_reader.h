// NodeReader: READs whole nodes and the root word.
//
// A READ may return a mixture of old and new bytes (A3). A node that fails its checks is read
// again; after some times it is read under its lock, when no client writes it (rule R5).
//
// Thread-safety: none; one for each session.
// Cost: 1 RT, and 1 RT more for each reread.
#pragma once

#include <cstdint>
#include <optional>

#include "common/status.h"
#include "common/task.h"
#include "compute/cache/node_cache.h"
#include "compute/lock/remote_lock.h"
#include "compute/node/store_state.h"
#include "compute/session/links.h"
#include "proto/internal_node.h"
#include "proto/leaf.h"

namespace gossamer {

// A group that is torn in more READs in a row than this is read under its leaf's lock.
inline constexpr uint32_t kMaxRereads = 24;
// Likewise a whole node, in this many READs. Fewer, because a path of the past may lead to memory
// that is another's by now.
inline constexpr uint32_t kMaxNodeRereads = 8;
// A node that fails its checks under its lock this many times in one operation is corrupt (rule
// R5).
inline constexpr uint32_t kMaxFailures = 4;

class NodeReader {
 public:
  // `rereads` counts READs that were repeated.
  NodeReader(const StoreState& store, Links& links, Pauses& pauses, RemoteLocks& locks,
             SessionCache& cache, LiveCount& rereads)
      : store_(store),
        links_(links),
        pauses_(pauses),
        locks_(locks),
        cache_(cache),
        rereads_(rereads) {}

  // Errors of all: NodeUnreachable, with the loss noted in `op`; NoResources without a buffer;
  // Corruption for a pointer that leads nowhere, or to a node that fails its checks under its lock.

  // Reads the root word and caches it. By fetch-add of 0, because atomics change the word (rule
  // R7).
  // Cost: 1 RT.
  Task<Result<RootWord>> ReadRoot(Op& op);
  Task<Result<InternalNode>> ReadInternal(Op& op, RemotePtr pointer);
  // Returns the bytes of the leaf that starts at `low`, which LeafView::Parse accepts.
  Task<Result<BufferLease>> ReadLeaf(Op& op, RemotePtr pointer, KeyView low);
  // Where a leaf ends, and the node behind it.
  struct LeafEnd {
    HighFence high;
    RemotePtr sibling;
  };
  // Reads the leaf that starts at `low` until all units agree, so that the result may be kept (rule
  // R3).
  Task<Result<LeafEnd>> ReadLeafEnd(Op& op, RemotePtr pointer, KeyView low);
  // Reads the low fence of the node that was or is at `pointer`, which need not come from the tree.
  // Returns nullopt if there is no such node any more, or if it is a leaf whose low fence its bytes
  // do not tell.
  // Errors: no Corruption.
  Task<Result<std::optional<Key>>> ReadLowFence(Op& op, RemotePtr pointer);

 private:
  // READs a node until accept(bytes) returns true. Returns the bytes.
  template <typename Accept>
  Task<Result<BufferLease>> ReadNode(Op& op, RemotePtr pointer, Accept accept);
  Task<Status> ReadUnderLock(Op& op, RemotePtr pointer, LocalAddress into);

  const StoreState& store_;
  Links& links_;
  Pauses& pauses_;
  RemoteLocks& locks_;
  SessionCache& cache_;
  LiveCount& rereads_;
};

}  // namespace gossamer
