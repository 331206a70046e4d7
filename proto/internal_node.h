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

#include "proto/checksum.h"
#include "proto/key.h"
#include "proto/leaf.h"
#include "proto/remote_ptr.h"

namespace gossamer {

struct InternalHeader {
  Checksum checksum;  // of everything behind it in the node, from UnitSeed
  uint64_t sibling;
  uint32_t version;
  uint16_t count;  // children, at least 1
  uint8_t level;   // at least 1
  uint8_t flags;   // bit 0: the high fence is infinite; bit 1: frozen
  uint8_t low_bytes;
  uint8_t high_bytes;
  uint8_t separator_bytes;  // of every separator, or 0xff: each states its own
  uint8_t reserved;
};
// The struct is longer than what is stored: its alignment pads it.
inline constexpr uint32_t kInternalHeaderBytes = 28;
static_assert(std::is_trivially_copyable_v<InternalHeader> &&
              offsetof(InternalHeader, count) == 20 && offsetof(InternalHeader, low_bytes) == 24 &&
              offsetof(InternalHeader, reserved) + 1 == kInternalHeaderBytes);

namespace internal {

// Of InternalHeader::flags.
inline constexpr uint8_t kInfinite = 0x01;
inline constexpr uint8_t kFrozenNode = 0x02;

}  // namespace internal

// A decoded internal node.
struct InternalNode {
  struct Child {
    Key separator;  // the low fence of the child
    RemotePtr pointer;
  };

  NodeVersion version{0};
  uint8_t level = 1;
  // Nobody changes it any more, and its left neighbour takes its children over; or, if it was the root, its only child takes
  // its place.
  bool frozen = false;
  HighFence high;
  RemotePtr sibling;
  std::vector<Child> children;  // at least one, in order of separator

  KeyView low() const { return children.front().separator; }
  // Whether it was the root, or is it still. Its only child covers all keys.
  bool was_root() const { return frozen && low().empty(); }
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
  size_t bytes = kInternalHeaderBytes + node.low().size() +
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
  header.flags = static_cast<uint8_t>((node.high.infinite ? internal::kInfinite : 0) |
                                      (node.frozen ? internal::kFrozenNode : 0));
  header.low_bytes = static_cast<uint8_t>(node.low().size());
  header.high_bytes = node.high.infinite ? 0 : static_cast<uint8_t>(node.high.key.size());

  std::memset(out.data(), 0, out.size());
  std::byte* at = out.data() + kInternalHeaderBytes;
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
  std::memcpy(out.data(), &header, kInternalHeaderBytes);
  Seal(UnitSeed(self, 0), out);
  return true;
}

// An encoded internal node, read where it is.
//
// Invariant: all parts lie within the bytes, which outlive the view.
class InternalView {
 public:
  // Accepts `bytes` (node_bytes) as the internal node at `self`, or rejects them: reread.
  static std::optional<InternalView> Parse(std::span<const std::byte> bytes, RemotePtr self) {
    InternalView view(bytes);
    const Checksum checksum = ChecksumOf(UnitSeed(self, 0), bytes);
    const InternalHeader& header = view.header_;
    if (checksum != header.checksum || header.level == 0 || header.count == 0 ||
        !view.FindEnd(bytes.size())) {
      return std::nullopt;
    }
    return view;
  }

  NodeVersion version() const { return static_cast<NodeVersion>(header_.version); }
  uint8_t level() const { return header_.level; }
  bool frozen() const { return (header_.flags & internal::kFrozenNode) != 0; }
  // As InternalNode::was_root.
  bool was_root() const { return frozen() && low().empty(); }
  RemotePtr sibling() const { return RemotePtr::FromWord(header_.sibling); }
  uint32_t count() const { return header_.count; }
  KeyView low() const { return {data_ + kInternalHeaderBytes, header_.low_bytes}; }
  HighFence high() const {
    const bool is_infinite = (header_.flags & internal::kInfinite) != 0;
    return is_infinite ? HighFence() : HighFence::At({low().end(), header_.high_bytes});
  }
  // Calls visit(separator, pointer) for each child, in order.
  template <typename Visit>
  void ForEach(Visit&& visit) const {
    uint32_t at = children_at();
    visit(low(), TakePointer(at));
    for (uint32_t i = 1; i < header_.count; ++i) {
      const KeyView separator = TakeSeparator(at);
      visit(separator, TakePointer(at));
    }
  }
  // Whether a child starts at `separator`. Requires: low() <= separator.
  bool HasChildAt(KeyView separator) const {
    uint32_t at = 0;
    return separator == low() || FindAbove(separator, at) == separator;
  }
  InternalNode Decode() const {
    InternalNode node;
    node.version = version();
    node.level = level();
    node.frozen = frozen();
    node.high = high();
    node.sibling = sibling();
    node.children.reserve(header_.count);
    ForEach([&node](KeyView separator, RemotePtr pointer) {
      InternalNode::Child& child = node.children.emplace_back();
      child.separator.Assign(separator);
      child.pointer = pointer;
    });
    return node;
  }

 private:
  friend bool AddInPlace(std::span<std::byte> image, RemotePtr self, NodeVersion version,
                         std::span<const InternalNode::Child> children, InternalView& view);

  static constexpr uint32_t kPointerBytes = sizeof(uint64_t);

  explicit InternalView(std::span<const std::byte> bytes)
      : data_(reinterpret_cast<const char*>(bytes.data())) {
    std::memcpy(static_cast<void*>(&header_), data_, kInternalHeaderBytes);
  }

  bool is_variable() const { return header_.separator_bytes == internal::kVariable; }
  uint32_t children_at() const {
    return kInternalHeaderBytes + header_.low_bytes + header_.high_bytes;
  }
  RemotePtr TakePointer(uint32_t& at) const {
    uint64_t word;
    std::memcpy(&word, data_ + at, sizeof word);
    at += kPointerBytes;
    return RemotePtr::FromWord(word);
  }
  KeyView TakeSeparator(uint32_t& at) const {
    const uint32_t length =
        is_variable() ? static_cast<uint8_t>(data_[at++]) : header_.separator_bytes;
    return {data_ + std::exchange(at, at + length), length};
  }
  // A matching checksum implies, for a correct client's bytes, that this succeeds.
  bool FindEnd(size_t bytes) {
    if (header_.low_bytes > kMaxKeyBytes || header_.high_bytes > kMaxKeyBytes) return false;
    const uint32_t others = header_.count - 1u;
    end_ = children_at() + kPointerBytes;
    if (!is_variable()) {
      end_ += others * (header_.separator_bytes + kPointerBytes);
      return end_ <= bytes && (others == 0 || header_.separator_bytes <= kMaxKeyBytes);
    }
    for (uint32_t i = 0; i < others; ++i) {
      if (end_ >= bytes) return false;
      const uint32_t length = static_cast<uint8_t>(data_[end_]);
      if (length > kMaxKeyBytes) return false;
      end_ += 1 + length + kPointerBytes;
    }
    return end_ <= bytes;
  }
  // As KeyPrefix, of a separator in the node: the pointer behind it makes it safe to load 8 bytes.
  static uint64_t PrefixOf(KeyView separator) {
    static_assert(kPointerBytes == sizeof(uint64_t));
    uint64_t word;
    std::memcpy(&word, separator.data(), sizeof word);
    const bool is_shorter = separator.size() < sizeof word;
    if (is_shorter) word &= (uint64_t{1} << (8 * separator.size())) - 1;
    return __builtin_bswap64(word);
  }
  // Finds where the first child that starts at `key` or above begins; `at` is the end if there is none. Returns its
  // separator. Requires: low() < key.
  KeyView FindAbove(KeyView key, uint32_t& at) const {
    const uint64_t prefix = KeyPrefix(key);
    at = children_at() + kPointerBytes;
    while (at < end_) {
      uint32_t behind = at;
      const KeyView separator = TakeSeparator(behind);
      const uint64_t other = PrefixOf(separator);
      if (other > prefix || (other == prefix && separator >= key)) return separator;
      at = behind + kPointerBytes;
    }
    return {};
  }

  const char* data_;
  InternalHeader header_;
  uint32_t end_ = 0;  // of the last child
};

inline std::optional<InternalNode> DecodeInternal(std::span<const std::byte> bytes,
                                                  RemotePtr self) {
  const std::optional<InternalView> view = InternalView::Parse(bytes, self);
  return view ? std::optional(view->Decode()) : std::nullopt;
}

// Adds `children` to `image`, parsed as `view`, and makes it the content of `version`. Cheaper than to decode and encode
// it. Returns false, and writes nothing, if they do not fit as the node is encoded: EncodeInternal may find room.
// Requires: the separators ascend, lie within the node's range, and no child starts there.
inline bool AddInPlace(std::span<std::byte> image, RemotePtr self, NodeVersion version,
                       std::span<const InternalNode::Child> children, InternalView& view) {
  InternalHeader& header = view.header_;
  const uint32_t prefix = view.is_variable() ? 1 : 0;
  uint32_t more = 0;
  for (const InternalNode::Child& child : children) {
    const size_t length = child.separator.size();
    if (!view.is_variable() && length != header.separator_bytes) return false;
    more += static_cast<uint32_t>(prefix + length + InternalView::kPointerBytes);
  }
  if (view.end_ + more > image.size()) return false;
  for (const InternalNode::Child& child : children) {
    const KeyView separator = child.separator;
    uint32_t at = 0;
    view.FindAbove(separator, at);
    const auto bytes =
        static_cast<uint32_t>(prefix + separator.size() + InternalView::kPointerBytes);
    std::byte* to = image.data() + at;
    std::memmove(to + bytes, to, view.end_ - at);
    if (prefix != 0) *to++ = static_cast<std::byte>(separator.size());
    std::memcpy(to, separator.data(), separator.size());
    const uint64_t word = child.pointer.word();
    std::memcpy(to + separator.size(), &word, sizeof word);
    view.end_ += bytes;
  }
  header.count = static_cast<uint16_t>(header.count + children.size());
  header.version = static_cast<uint32_t>(version);
  std::memcpy(image.data(), &header, kInternalHeaderBytes);
  Seal(UnitSeed(self, 0), image);
  return true;
}

}  // namespace gossamer
