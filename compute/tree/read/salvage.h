// Salvager: scans a store of which parts cannot be reached. It reads one leaf after the other, each
// by a fresh path from the root. It steps over what it cannot read, to the next separator in a
// readable node.
//
// It runs rarely and does not use the cache. From readable leaves it emits what a scan would emit.
//
// Thread-safety: none; one for each session.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/task.h"
#include "compute/tree/read/scan.h"
#include "compute/tree/tree_context.h"
#include "gossamer/store.h"

namespace gossamer {

// What a salvaging scan could not reach.
struct Salvage {
  std::vector<MissingKeys> missing;  // in order, disjoint
  std::map<ServerId, Error> lost;    // servers that could not be reached, and why

  // Merges the range with the one before if it continues that one for the same reason.
  void Add(KeyView from, const HighFence& end, const Error& why);
};

class Salvager {
 public:
  Salvager(TreeContext& context, Scanner& scanner) : context_(context), scanner_(scanner) {}

  // Adds the entries of the next leaf to the page of `scan`, in ascending order, and advances its
  // position. Steps over what cannot be read, and adds it to `salvage`.
  // Errors: the root word, and so the whole tree, cannot be read.
  // Cost: levels + 2 RT.
  Task<Status> SalvageLeaf(Scan& scan, Salvage& salvage);

 private:
  // The leaf for a key, as far as nodes are readable.
  struct ReachedLeaf {
    RemotePtr leaf;  // null: it cannot be found; see `why`
    Key low;         // where it starts
    HighFence end;   // the next separator that is known
    Error why{Code::kNodeUnreachable, {}};
  };

  Task<Status> SalvageRange(Op& op, Scan& scan, Salvage& salvage);
  // Cost: 1 RT for the root word and 1 RT for each level.
  Task<Result<ReachedLeaf>> ReachLeaf(Op& op, KeyView from, Salvage& salvage);
  // Fills the long keys and values of blocks of the leaf that `scan` had not seen at `start`. A key
  // whose block is unreachable or damaged is added to `salvage`; of a long key, all keys of the
  // leaf that begin as it does, except for those that are known.
  // Returns false if that may be because the leaf has changed since.
  Task<Result<bool>> SalvageBlocks(Op& op, const ScanPosition& start, Scan& scan, Salvage& salvage);
  // Does not ask a lost server again: each time might take a connection timeout.
  template <typename Read>
  auto ReadUnlessLost(Op& op, ServerId server, Salvage& salvage, Read read) -> decltype(read());

  TreeContext& context_;
  Scanner& scanner_;
};

}  // namespace gossamer
