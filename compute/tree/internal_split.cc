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

// Cuts `node` behind its first children, as many as come to about `left_bytes` or, with `at_end`, as fit with the new fence.
// The fence between the parts is short. Returns the rest, which may be too long.
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
  const auto cut_at = [&](size_t cut) {
    node.children.assign(children.begin(), children.begin() + static_cast<ptrdiff_t>(cut));
    node.high = HighFence::At(children[cut].separator);
    return IsShortFence(node.low(), node.high.key) && EncodedBytes(node) <= node_bytes;
  };
  // Each child's own fences are short together, and a node of one child fits: any node can be cut behind the first one.
  for (size_t distance = 0; distance < children.size(); ++distance) {
    if (distance < middle && cut_at(middle - distance)) break;
    if (distance != 0 && middle + distance < children.size() && cut_at(middle + distance)) break;
  }
  right.children.assign(children.begin() + static_cast<ptrdiff_t>(node.children.size()),
                        children.end());
  return right;
}

}  // namespace

std::vector<InternalNode> SplitInternal(InternalNode& node, bool at_end, uint32_t node_bytes) {
  std::vector<InternalNode> right;
  for (InternalNode* rest = &node; EncodedBytes(*rest) > node_bytes; rest = &right.back()) {
    size_t total = sizeof(uint64_t);
    for (size_t i = 1; i < rest->children.size(); ++i) total += BytesOf(rest->children, i);
    // Room for children beside a header and two fences, without what a node's end may leave unused.
    const size_t others = kInternalHeaderBytes + rest->low().size() + kMaxFenceBytes;
    const size_t room = node_bytes - std::min<size_t>(others, node_bytes / 2);
    const size_t parts = std::max<size_t>(2, (total + room - 1) / room);
    // Not right.push_back(CutBehind(*rest, ...)), because `rest` may be in the vector.
    InternalNode behind = CutBehind(*rest, total / parts, at_end, node_bytes);
    right.push_back(std::move(behind));
  }
  return right;
}

}  // namespace gossamer
