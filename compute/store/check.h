// TreeChecker: walks a whole store and verifies every invariant of the tree.
//
// Level by level from the root down: along the sibling chain of each level, comparing it with the downlinks of the
// level above; then the locks and the extents. Meaningful while nobody writes.
//
// Locks whose holders' leases have ended guard nothing, and an operation that needs one takes it over: the checker releases
// those it finds, and counts them apart. A lock of a lease in force is a problem where nobody writes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

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

  // NodeUnreachable when a memory server is lost on the way; whatever else is found is in the report.
  Result<CheckReport> Run();

 private:
  // A downlink, as its parent states it.
  struct Downlink {
    Key low;
    RemotePtr pointer;
  };

  void Problem(RemotePtr pointer, const std::string& what);
  // Walks one level of internal nodes from its leftmost; returns the downlinks to the next level.
  Task<Status> WalkInternal(uint32_t level, const std::vector<Downlink>& expected,
                            std::vector<Downlink>& downlinks);
  Task<Status> WalkLeaves(const std::vector<Downlink>& expected);
  Task<Status> CheckLeaf(RemotePtr pointer, const LeafView& leaf, KeyView low);
  // Takes the next node of a chain out of `expected`; counts it as missing a downlink when it is not there.
  void Match(const std::vector<Downlink>& expected, size_t& next, RemotePtr pointer, KeyView low);
  // Gives `servers_` its value, and the endpoint a queue pair to each of them. Blocks like Endpoint::Attach.
  Status AttachAll();
  Task<Status> CheckLocks();
  // Asks the server whether the lease of a lock word is in force, once for each lease.
  Task<Result<bool>> HasEnded(ServerId server, Lease lease);
  // Takes a word away from the dead (rule L6). False: somebody else has done so.
  Task<Result<bool>> ReleaseForTheDead(ServerId server, uint64_t slot, LockWord word);
  Task<Status> CheckExtents();
  // Notes that [pointer, pointer + bytes) is in use as `kind`.
  void Use(ServerId server, uint64_t offset, uint64_t bytes, control::ExtentKind kind);

  struct Used {
    uint64_t bytes;
    control::ExtentKind kind;
  };

  StoreState& shared_;
  Scheduler& scheduler_;
  Tree tree_;
  std::function<void(uint64_t)> progress_;
  CheckReport report_;
  std::vector<const ServerInfo*> servers_;  // as they are known behind the walk
  std::map<ServerId, std::map<uint64_t, Used>> used_;
  std::map<std::tuple<ServerId, ComputeId, uint32_t>, bool> has_ended_;
};

}  // namespace gossamer
