// Salvager: one scan of a store of which parts cannot be reached. It reads one leaf after the
// other, each by a fresh path from the root. It steps over what it cannot read, to the next
// separator in a readable node.
//
// It runs rarely and does not use the cache. From readable leaves it emits what a scan would emit.
//
// Thread-safety: none.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "common/status.h"
#include "common/task.h"
#include "compute/tree/read/scan.h"
#include "compute/tree/tree_context.h"
#include "gossamer/store.h"

namespace gossamer {

class Salvager {
 public:
  Salvager(TreeContext& context, Scanner& scanner) : context_(context), scanner_(scanner) {}

  // Adds the entries of the next leaf to the page of `scan`, in ascending order, and advances its
  // position. Steps over what cannot be read, and adds it to `missing`.
  // Errors: the root word, and so the whole tree, cannot be read.
  // Cost: levels + 2 RT.
  Task<Status> SalvageLeaf(Scan& scan);
  // What could not be reached, in order, disjoint, up to the end of the scan's range.
  std::span<const MissingKeys> missing() const { return missing_; }

 private:
  // The leaf for a key, as far as nodes are readable.
  struct ReachedLeaf {
    RemotePtr leaf;  // null: it cannot be found; see `why`
    Key low;         // where it starts
    HighFence end;   // the next separator that is known
    Error why{Code::kNodeUnreachable, {}};
  };

  Task<Status> SalvageRange(Op& op, Scan& scan);
  // Cost: 1 RT for the root word and 1 RT for each level.
  Task<Result<ReachedLeaf>> ReachLeaf(Op& op, KeyView from);
  // Fills the long keys and values of blocks of the leaf that `scan` had not seen at `start`. A key
  // whose block is unreachable or damaged is added to what is missing; of a long key, all keys of
  // the leaf that begin as it does, except for those that are known.
  // Returns false if that may be because the leaf has changed since.
  Task<Result<bool>> SalvageBlocks(Op& op, const ScanPosition& start, Scan& scan);
  // Does not ask a lost server again: each time might take a connection timeout.
  template <typename Read>
  auto ReadUnlessLost(Op& op, ServerId server, Read read) -> decltype(read());

  // Merges the range with the one before if it continues that one for the same reason.
  void AddMissing(KeyView from, const HighFence& end, const Error& why);
  // Clips what is missing at the end of the scan's range: the leaf read, and so a gap, may extend
  // beyond it.
  void Clip(Scan& scan);

  TreeContext& context_;
  Scanner& scanner_;
  std::vector<MissingKeys> missing_;
  std::map<ServerId, Error> lost_;  // servers that could not be reached, and why
};

}  // namespace gossamer
