// Salvager: a scan of a store of which parts cannot be reached. It reads one leaf after the other, each by a fresh path
// from the root, and steps over what it cannot read: to the next separator that stands in a node which can be read.
//
// It runs rarely and makes no use of the cache. It emits what a scan would have emitted of the same leaves.
//
// Thread-safety: none; one for each session.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/task.h"
#include "compute/tree/scan.h"
#include "compute/tree/tree_context.h"
#include "gossamer/store.h"

namespace gossamer {

// What a scan that steps over what it cannot reach has found out.
struct Salvage {
  std::vector<MissingKeys> missing;  // in order; nothing is there twice
  std::map<ServerId, Error> lost;    // servers that could not be reached, and why

  // The range joins the one before where it goes on for the same reason.
  void Add(KeyView from, const HighFence& end, const Error& why);
};

class Salvager {
 public:
  Salvager(TreeContext& context, Scanner& scanner) : context_(context), scanner_(scanner) {}

  // Appends the entries of the next leaf, in ascending order, and advances `position`. What cannot be read is stepped over
  // and added to `salvage`. Fails where the root word cannot be read: then nothing can. Levels + 2 RT.
  Task<Status> SalvageLeaf(ScanPosition& position, std::vector<ScannedEntry>& entries,
                           Salvage& salvage);

 private:
  // The leaf for a key, as far as nodes can be read.
  struct ReachedLeaf {
    RemotePtr leaf;  // null: it cannot be found, and `why`
    HighFence end;   // the next separator that is known
    Error why{Code::kNodeUnreachable, {}};
  };

  Task<Status> SalvageRange(Op& op, ScanPosition& position, ScanPage& page, Salvage& salvage);
  // 1 RT for the root word and for each level.
  Task<Result<ReachedLeaf>> ReachLeaf(Op& op, KeyView from, Salvage& salvage);
  // A value that cannot be reached, or is damaged: its key is missing.
  Task<Status> SalvageBlocks(Op& op, ScanPage& page, Salvage& salvage);
  Task<Result<bool>> FillBlocksOf(Op& op, ScanPage& page);
  // Once a server is lost, it is not asked again: each time might cost a connection's time-out.
  template <typename Read>
  auto ReadUnlessLost(Op& op, ServerId server, Salvage& salvage, Read read) -> decltype(read());

  TreeContext& context_;
  Scanner& scanner_;
};

}  // namespace gossamer
