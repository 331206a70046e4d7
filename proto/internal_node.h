// Internal nodes: sorted separators and child pointers, read whole and written whole.
//
// One checksum covers the node. Child i covers [separator i, separator i+1); separator 0 is the low fence, stored once.
// Separators have their true length; if all lengths are equal, only the header states it. LAYOUT.md draws the bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "proto/crc32c.h"
#include "proto/key.h"
#include "proto/leaf.h"
#include "proto/remote_ptr.h"

namespace gossamer {

struct InternalHeader {
  uint32_t checksum;  // of everything behind it in the node, seeded by UnitSeed
  uint32_t version;
  uint64_t sibling;
  uint16_t count;  // children, at least 1
  uint8_t level;   // at least 1
  uint8_t flags;   // bit 0: the high fence is infinite
  uint8_t low_bytes;
  uint8_t high_bytes;
  uint8_t separator_bytes;  // of every separator, or 0xff: each states its own
  uint8_t reserved;
};
static_assert(sizeof(InternalHeader) == 24 && std::is_trivially_copyable_v<InternalHeader>);
static_assert(offsetof(InternalHeader, count) == 16 && offsetof(InternalHeader, low_bytes) == 20);

// A decoded internal node.
struct InternalNode {
  struct Child {
    Key separator;  // the low fence of the child
    RemotePtr pointer;
  };

  NodeVersion version{0};
  uint8_t level = 1;
  HighFence high;
  RemotePtr sibling;
  std::vector<Child> children;  // at least one, in order of separator

  KeyView low() const { return children.front().separator; }
  // The child whose range contains `key`. Requires: low() <= key.
  size_t ChildIndex(KeyView key) const {
    const auto above =
        std::upper_bound(children.begin() + 1, children.end(), key,
                         [](KeyView k, const Child& child) { return k < child.separator.view(); });
    return static_cast<size_t>(above - children.begin()) - 1;
  }
  // The last child whose range starts below `bound`. Requires: low() < bound.
  size_t ChildIndexBelow(KeyView bound) const {
    const size_t index = ChildIndex(bound);
    return index != 0 && children[index].separator.view() == bound ? index - 1 : index;
  }
};

// The encoded size of `node` in bytes.
inline uint32_t EncodedBytes(const InternalNode& node, uint8_t* separator_bytes = nullptr) {
  size_t bytes = sizeof(InternalHeader) + node.low().size() +
                 (node.high.infinite ? 0 : node.high.key.size()) + 8 * node.children.size();
  bool uniform = true;
  const size_t first = node.children.size() > 1 ? node.children[1].separator.size() : 0;
  for (size_t i = 1; i < node.children.size(); ++i) {
    bytes += node.children[i].separator.size();
    uniform &= node.children[i].separator.size() == first;
  }
  if (!uniform) bytes += node.children.size() - 1;
  if (separator_bytes != nullptr) {
    *separator_bytes = uniform ? static_cast<uint8_t>(first) : internal::kVariable;
  }
  return static_cast<uint32_t>(bytes);
}

// Writes the whole node to `out` (node_bytes), padded with zeros. Returns false, and writes
// nothing, if it does not fit: split it.
inline bool EncodeInternal(std::span<std::byte> out, RemotePtr self, const InternalNode& node) {
  InternalHeader header{};
  if (EncodedBytes(node, &header.separator_bytes) > out.size()) return false;
  header.version = static_cast<uint32_t>(node.version);
  header.sibling = node.sibling.word();
  header.count = static_cast<uint16_t>(node.children.size());
  header.level = node.level;
  header.flags = node.high.infinite ? 1 : 0;
  header.low_bytes = static_cast<uint8_t>(node.low().size());
  header.high_bytes = node.high.infinite ? 0 : static_cast<uint8_t>(node.high.key.size());

  std::memset(out.data(), 0, out.size());
  std::byte* at = out.data() + sizeof header;
  const auto append = [&at](const void* data, size_t bytes) {
    std::memcpy(at, data, bytes);
    at += bytes;
  };
  append(node.low().data(), node.low().size());
  append(node.high.key.view().data(), header.high_bytes);
  for (size_t i = 0; i < node.children.size(); ++i) {
    const InternalNode::Child& child = node.children[i];
    const uint64_t word = child.pointer.word();
    if (i != 0) {
      const KeyView separator = child.separator;
      if (header.separator_bytes == internal::kVariable) {
        *at++ = static_cast<std::byte>(separator.size());
      }
      if (separator.size() == sizeof(uint64_t)) {
        append(separator.data(), sizeof(uint64_t));  // of known size: one store
      } else {
        append(separator.data(), separator.size());
      }
    }
    append(&word, sizeof word);
  }
  std::memcpy(out.data(), &header, sizeof header);
  header.checksum = Crc32c(UnitSeed(self.word(), 0), out.subspan(sizeof(uint32_t)));
  std::memcpy(out.data(), &header.checksum, sizeof header.checksum);
  return true;
}

// Accepts `bytes` (node_bytes) as the internal node at `self`, or rejects them: reread.
inline std::optional<InternalNode> DecodeInternal(std::span<const std::byte> bytes,
                                                  RemotePtr self) {
  InternalHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (Crc32c(UnitSeed(self.word(), 0), bytes.subspan(sizeof(uint32_t))) != header.checksum ||
      header.level == 0 || header.count == 0) {
    return std::nullopt;
  }
  const auto* at = reinterpret_cast<const char*>(bytes.data()) + sizeof header;
  const auto* const end = reinterpret_cast<const char*>(bytes.data()) + bytes.size();
  const auto has = [&at, end](size_t count) { return count <= static_cast<size_t>(end - at); };
  const auto take = [&at](size_t count) { return KeyView(std::exchange(at, at + count), count); };
  const auto take_pointer = [&at] {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    at += sizeof word;
    return RemotePtr::FromWord(word);
  };
  const bool has_fences = header.low_bytes <= kMaxKeyBytes && header.high_bytes <= kMaxKeyBytes &&
                          has(header.low_bytes + header.high_bytes + sizeof(uint64_t));
  if (!has_fences) return std::nullopt;

  InternalNode node;
  node.version = static_cast<NodeVersion>(header.version);
  node.level = header.level;
  node.sibling = RemotePtr::FromWord(header.sibling);
  node.children.reserve(header.count);
  const KeyView low = take(header.low_bytes);
  const KeyView high = take(header.high_bytes);
  if ((header.flags & 1) == 0) node.high = HighFence::At(high);
  const auto add = [&node, &take_pointer](KeyView separator) {
    InternalNode::Child& child = node.children.emplace_back();
    child.separator.Assign(separator);
    child.pointer = take_pointer();
  };
  add(low);
  for (uint32_t i = 1; i < header.count; ++i) {
    size_t length = header.separator_bytes;
    if (length == internal::kVariable) {
      if (!has(1)) return std::nullopt;
      length = static_cast<uint8_t>(*at++);
    }
    if (length > kMaxKeyBytes || !has(length + sizeof(uint64_t))) return std::nullopt;
    add(take(length));
  }
  return node;
}

}  // namespace gossamer
