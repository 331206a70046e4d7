// TreeChecker: walks a whole store and verifies every invariant of the tree.
//
// It walks level by level from the root down. It follows the sibling chain of each level and
// compares it with the downlinks of the level above. Then it checks locks and extents. The result
// is meaningful only while no client writes.
//
// A lock whose holder's lease has ended guards nothing, and an operation that needs it takes it
// over. The checker releases such locks and counts them separately. A lock of a lease in force is a
// problem, because no client should be writing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "compute/lock/lease_status.h"
#include "compute/store/keeping/used_memory.h"
#include "compute/tree/tree.h"
#include "gossamer/store.h"

namespace gossamer {

class TreeChecker {
 public:
  TreeChecker(StoreState& shared, Scheduler& scheduler,
              std::function<void(uint64_t leaves)> progress)
      : shared_(shared),
        scheduler_(scheduler),
        tree_(shared, scheduler),
        progress_(std::move(progress)) {}

  // Errors: NodeUnreachable if a memory server is lost during the walk. All other findings are in
  // the report.
  Result<CheckReport> Run();

 private:
  // A downlink as its parent states it.
  struct Downlink {
    Key low;
    RemotePtr pointer;
  };

  void Problem(RemotePtr pointer, const std::string& what);
  // Walks one level of internal nodes from the leftmost; adds the downlinks to the next level.
  Task<Status> WalkInternal(uint32_t level, const std::vector<Downlink>& expected,
                            std::vector<Downlink>& downlinks);
  Task<Status> WalkLeaves(const std::vector<Downlink>& expected);
  Task<Status> CheckLeaf(RemotePtr pointer, const LeafView& leaf, KeyView low);
  // Checks that unit `number` of the leaf is that of a key with this hash. `key`: at least its
  // first bytes.
  void CheckPlace(RemotePtr pointer, const LeafView& leaf, uint32_t number, uint64_t key_hash,
                  KeyView key);
  // Advances `next` past the node in `expected`. Counts a missing downlink if it is not there.
  void Match(const std::vector<Downlink>& expected, size_t& next, RemotePtr pointer, KeyView low);
  // Checks how the node at `pointer` ends, and moves on to its sibling; to none after a problem.
  void MoveOn(const HighFence& high, RemotePtr sibling, RemotePtr& pointer, Key& low);
  // Sets `servers_`, and attaches the endpoint to each of them. Blocks like Endpoint::Attach.
  Status AttachAll();
  Task<Status> CheckLocks();
  // Asks `server` once about each lease in its lock words.
  Task<Result<LeaseState>> StateOf(ServerId server, Lease lease);
  // Releases a lock whose holder is dead (rule L6), and counts it unless another client was
  // quicker.
  Task<Status> ReleaseForTheDead(ServerId server, uint64_t slot, LockWord word);
  Task<Status> CheckExtents();
  Task<Status> CheckExtents(ServerId server);
  // Records that [offset, offset + bytes) is in use as `kind`.
  void Use(ServerId server, uint64_t offset, uint64_t bytes, control::ExtentKind kind);

  StoreState& shared_;
  Scheduler& scheduler_;
  Tree tree_;
  std::function<void(uint64_t)> progress_;
  CheckReport report_;
  std::vector<const ServerInfo*> servers_;  // as known after the walk
  UsedMemory used_;
  std::map<std::tuple<ServerId, ComputeId, uint32_t>, LeaseState> lease_states_;
};

}  // namespace gossamer
