#include "compute/cache/cached_node.h"

#include <algorithm>
#include <cstring>

namespace gossamer {

CachedNode* CachedNode::Make(RemotePtr pointer, const InternalNode& node) {
  const auto count = static_cast<uint32_t>(node.children.size());
  const uint32_t words = node.level == 1 ? 3 : 2;
  size_t separator_bytes = 0;
  for (const InternalNode::Child& child : node.children) separator_bytes += child.separator.size();
  const size_t bytes =
      sizeof(CachedNode) + count * (words * sizeof(uint64_t) + sizeof(uint32_t)) + separator_bytes;

  auto* cached = ::new (::operator new(bytes)) CachedNode;
  cached->pointer_ = pointer;
  cached->high_ = node.high;
  cached->version_ = node.version;
  cached->level_ = node.level;
  cached->count_ = count;
  cached->bytes_ = static_cast<uint32_t>(bytes);
  auto* prefixes = reinterpret_cast<uint64_t*>(cached->tail());
  uint64_t* children = prefixes + count;
  auto* ends = const_cast<uint32_t*>(cached->ends());
  auto* separators = const_cast<char*>(cached->separators());
  uint32_t end = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const KeyView separator = node.children[i].separator;
    prefixes[i] = KeyPrefix(separator);
    children[i] = node.children[i].pointer.word();
    std::memcpy(separators + end, separator.data(), separator.size());
    end += static_cast<uint32_t>(separator.size());
    ends[i] = end;
    if (node.level == 1) ::new (&cached->hints()[i]) std::atomic<uint64_t>(0);
  }
  return cached;
}

void CachedNode::Free(void* node) {
  static_cast<CachedNode*>(node)->~CachedNode();
  ::operator delete(node);
}

uint32_t CachedNode::CountNotAbove(KeyView key) const {
  const uint64_t prefix = KeyPrefix(key);
  const uint64_t* first = prefixes();
  // Branch-free binary search: its comparisons are random, and no predictor guesses them.
  const uint64_t* base = first;
  for (uint32_t length = count_; length > 1; length -= length / 2) {
    base = base[length / 2 - 1] <= prefix ? base + length / 2 : base;
  }
  auto index = static_cast<uint32_t>(base - first) + (*base <= prefix ? 1 : 0);
  while (index != 0 && first[index - 1] == prefix && separator(index - 1) > key) --index;
  return index;
}

uint32_t CachedNode::ChildIndex(KeyView key) const {
  const uint32_t not_above = CountNotAbove(key);
  return not_above == 0 ? 0 : not_above - 1;
}

uint32_t CachedNode::ChildIndexBelow(KeyView bound) const {
  const uint32_t index = ChildIndex(bound);
  return index != 0 && separator(index) == bound ? index - 1 : index;
}

}  // namespace gossamer
