// Splits an internal node that has too many children. No verbs.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/internal_node.h"

namespace gossamer {

// Splits `node`, which does not fit into `node_bytes`, into itself and the nodes returned, from left to right: into as
// few as take the children, near the middle if that is two. With `at_end`, each but the last gets as many children as
// fit with its new fence. The nodes' versions and levels are those of `node`; the last one has its sibling pointer, and
// the pointers between them are left to the caller.
std::vector<InternalNode> SplitInternal(InternalNode& node, bool at_end, uint32_t node_bytes);

}  // namespace gossamer
