// Leaves of a tree that are drawn by chance.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "common/random.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/tree/tree.h"
#include "proto/entry.h"
#include "proto/key.h"
#include "proto/remote_ptr.h"

namespace gossamer {

struct DrawnLeaf {
  RemotePtr pointer;
  Key low;
  std::vector<std::byte> image;  // which LeafView::Parse accepts
};

struct DrawnLeaves {
  std::vector<DrawnLeaf> leaves;
  // How many leaves the tree has, if all of its nodes have as many children as those on the way. An
  // estimate that is right on average (Knuth '75, Estimating the Efficiency of Backtrack Programs).
  double leaves_in_tree = 1;
};

// Draws a parent of leaves, a child by chance at each level, and up to `most` of its leaves, each
// once. They are fewer, or none, if the tree has changed on the way. Requires: `most` is above 0.
// Cost: 1 RT for each level of the tree, and each leaf.
Task<Result<DrawnLeaves>> DrawLeaves(Tree& tree, Random& random, size_t most);

// The keys are whole, but of long ones they are the first bytes. An entry may come twice (rule R6).
void ForEachEntry(Tree& tree, const DrawnLeaf& leaf, const std::function<void(const Entry&)>& look);

}  // namespace gossamer
