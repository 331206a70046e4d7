// Splits an internal node that has too many children. No verbs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "proto/internal_node.h"

namespace gossamer {

// Splits `node`, which does not fit into `node_bytes`, into itself and the nodes returned, from
// left to right: into as few as take the children, near the middle if that is two. With `at_end`,
// each but the last gets as many children as fit with its new fence. The nodes' versions and levels
// are those of `node`; the last one has its sibling pointer, and the pointers between them are left
// to the caller.
//
// All parts fit. The fences between them are short, except where downlinks are missing and no cut
// with a short fence fits.
// Returns nullopt if no cuts make parts that fit; `node` may have lost children then. That happens
// only in nodes of 512 bytes, and only while downlinks are missing ("Internal node" in LAYOUT.md).
std::optional<std::vector<InternalNode>> SplitInternal(InternalNode& node, bool at_end,
                                                       uint32_t node_bytes);

}  // namespace gossamer
