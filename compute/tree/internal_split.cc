#include "compute/tree/internal_split.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace gossamer {
namespace {

using Children = std::vector<InternalNode::Child>;

// What the child takes, behind the one before.
size_t BytesOf(const Children& children, size_t i) {
  return ChildBytes(children[i - 1].separator, children[i].separator);
}

// Cuts `node` behind its first children, as many as come to `left_bytes` or, with `at_end`, as fit with the new fence.
// Returns the rest, which may be too long.
InternalNode CutBehind(InternalNode& node, size_t left_bytes, bool at_end, uint32_t node_bytes) {
  const Children children = std::move(node.children);
  const size_t beside_fence = node_bytes - kInternalHeaderBytes - children[0].separator.size();
  const size_t enough = at_end ? beside_fence : left_bytes;
  size_t middle = 1;
  for (size_t bytes = sizeof(uint64_t); middle + 1 < children.size() && bytes < enough; ++middle) {
    bytes += BytesOf(children, middle);
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

size_t LongestFence(const InternalNode& node) {
  size_t longest = node.high.infinite ? 0 : node.high.key.size();
  for (const InternalNode::Child& child : node.children) {
    longest = std::max(longest, child.separator.size());
  }
  return longest;
}

}  // namespace

std::vector<InternalNode> SplitInternal(InternalNode& node, bool at_end, uint32_t node_bytes) {
  std::vector<InternalNode> right;
  // Room for children beside a header and two fences, without what a node's end may leave unused.
  const size_t room = node_bytes - kInternalHeaderBytes - 2 * LongestFence(node);
  for (InternalNode* rest = &node; EncodedBytes(*rest) > node_bytes; rest = &right.back()) {
    size_t total = sizeof(uint64_t);
    for (size_t i = 1; i < rest->children.size(); ++i) total += BytesOf(rest->children, i);
    const size_t parts = std::max<size_t>(2, (total + room - 1) / room);
    // Not right.push_back(CutBehind(*rest, ...)), because `rest` may be in the vector.
    InternalNode behind = CutBehind(*rest, total / parts, at_end, node_bytes);
    right.push_back(std::move(behind));
  }
  return right;
}

}  // namespace gossamer
