#include "compute/tree/internal_split.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace gossamer {
namespace {

// A child's pointer, and its separator with the length.
size_t BytesOf(const InternalNode::Child& child) { return child.separator.size() + 9; }

// Cuts `node` behind its first children, as many as come to `left_bytes` or, with `at_end`, as fit with the new fence.
// Returns the rest, which may be too long.
InternalNode CutBehind(InternalNode& node, size_t left_bytes, bool at_end, uint32_t node_bytes) {
  const std::vector<InternalNode::Child> children = std::move(node.children);
  // More than any children that fit: a child may be encoded without its length.
  const size_t enough = node_bytes + node_bytes / 4;
  size_t middle = 1;
  for (size_t bytes = BytesOf(children[0]);
       middle + 1 < children.size() && bytes < (at_end ? enough : left_bytes); ++middle) {
    bytes += BytesOf(children[middle]);
  }
  InternalNode right;
  right.version = node.version;
  right.level = node.level;
  right.high = node.high;
  right.sibling = node.sibling;
  for (;; --middle) {
    const auto cut = children.begin() + static_cast<ptrdiff_t>(middle);
    node.children.assign(children.begin(), cut);
    node.high = HighFence::At(cut->separator);
    if (EncodedBytes(node) <= node_bytes) {
      right.children.assign(cut, children.end());
      return right;
    }
  }
}

}  // namespace

std::vector<InternalNode> SplitInternal(InternalNode& node, bool at_end, uint32_t node_bytes) {
  std::vector<InternalNode> right;
  // Room for children beside a header and two fences, without what a node's end may leave unused.
  const size_t room = node_bytes - sizeof(InternalHeader) - 2 * size_t{kMaxKeyBytes};
  for (InternalNode* rest = &node; EncodedBytes(*rest) > node_bytes; rest = &right.back()) {
    size_t total = 0;
    for (const InternalNode::Child& child : rest->children) total += BytesOf(child);
    const size_t parts = std::max<size_t>(2, (total + room - 1) / room);
    // Not right.push_back(CutBehind(*rest, ...)), because `rest` may be in the vector.
    InternalNode behind = CutBehind(*rest, total / parts, at_end, node_bytes);
    right.push_back(std::move(behind));
  }
  return right;
}

}  // namespace gossamer
