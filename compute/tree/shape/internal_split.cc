#include "compute/tree/shape/internal_split.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace gossamer {
namespace {

using Children = std::vector<InternalNode::Child>;

// What the child takes, behind the one before.
size_t BytesOf(const Children& children, size_t i) {
  return ChildBytes(children[i - 1].separator, children[i].separator);
}

// How many children of `node` come to about `left_bytes` or, with `at_end`, as many as fit.
size_t CountNear(const InternalNode& node, size_t left_bytes, bool at_end, uint32_t node_bytes) {
  const size_t beside_fence = node_bytes - kInternalHeaderBytes - node.low().size();
  const size_t enough = at_end ? beside_fence : left_bytes;
  size_t count = 1;
  for (size_t bytes = sizeof(uint64_t); count + 1 < node.children.size() && bytes < enough;
       ++count) {
    bytes += BytesOf(node.children, count);
  }
  return count;
}

// The number of children, nearest to `middle`, behind which `node` is cut so that they fit with the
// new fence. Prefers a short fence. nullopt if there is none.
std::optional<size_t> FindCut(const InternalNode& node, size_t middle, uint32_t node_bytes) {
  const Children& children = node.children;
  if (children.size() < 2) return std::nullopt;
  const Key& low = children[0].separator;
  enum class Fit : uint8_t { kNone, kWithLongFence, kWithShortFence };
  std::vector<Fit> fits(children.size(), Fit::kNone);  // for each number of children
  size_t bytes = kInternalHeaderBytes + low.size() + sizeof(uint64_t);
  for (size_t cut = 1; cut < children.size(); ++cut) {
    const Key& fence = children[cut].separator;
    if (bytes + fence.size() - SharedBytes(low, fence) <= node_bytes) {
      fits[cut] = IsShortFence(low, fence) ? Fit::kWithShortFence : Fit::kWithLongFence;
    }
    bytes += BytesOf(children, cut);
  }
  for (const Fit wanted : {Fit::kWithShortFence, Fit::kWithLongFence}) {
    for (size_t distance = 0; distance < children.size(); ++distance) {
      if (distance < middle && fits[middle - distance] == wanted) return middle - distance;
      const size_t right = middle + distance;
      if (right < children.size() && fits[right] == wanted) return right;
    }
  }
  return std::nullopt;
}

// Cuts `node` behind its first `count` children. Returns the rest, which may be too long.
InternalNode CutBehind(InternalNode& node, size_t count) {
  const auto cut = node.children.begin() + static_cast<ptrdiff_t>(count);
  InternalNode right;
  right.version = node.version;
  right.level = node.level;
  right.high = node.high;
  right.sibling = node.sibling;
  right.children.assign(cut, node.children.end());
  node.children.erase(cut, node.children.end());
  node.high = HighFence::At(right.low());
  return right;
}

}  // namespace

std::optional<std::vector<InternalNode>> SplitInternal(InternalNode& node, bool at_end,
                                                       uint32_t node_bytes) {
  std::vector<InternalNode> right;
  for (InternalNode* rest = &node; EncodedBytes(*rest) > node_bytes; rest = &right.back()) {
    size_t total = sizeof(uint64_t);
    for (size_t i = 1; i < rest->children.size(); ++i) total += BytesOf(rest->children, i);
    // Room for children beside a header and two fences, without what a node's end may leave unused.
    const size_t others = kInternalHeaderBytes + rest->low().size() + kMaxFenceBytes;
    const size_t room = node_bytes - std::min<size_t>(others, node_bytes / 2);
    const size_t parts = std::max<size_t>(2, (total + room - 1) / room);
    const size_t middle = CountNear(*rest, total / parts, at_end, node_bytes);
    const std::optional<size_t> cut = FindCut(*rest, middle, node_bytes);
    if (!cut) return std::nullopt;
    // Not right.push_back(CutBehind(*rest, ...)), because `rest` may be in the vector.
    InternalNode behind = CutBehind(*rest, *cut);
    right.push_back(std::move(behind));
  }
  return right;
}

}  // namespace gossamer
