// Internal nodes: sorted separators and child pointers, read whole and written whole.
//
// One checksum covers the node. Child i covers [separator i, separator i+1); separator 0 is the low
// fence, stored once. Separators are front-coded: each is stored without the bytes that it shares
// with the one before. LAYOUT.md draws the bytes.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "proto/checksum.h"
#include "proto/front_coding.h"
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
  uint8_t high_shared;  // bytes that the high fence shares with the low fence
  uint8_t high_bytes;   // behind those
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

inline constexpr uint32_t kPointerBytes = sizeof(uint64_t);
static_assert(kPointerBytes == kBehindKey);

}  // namespace internal

// A decoded internal node.
struct InternalNode {
  struct Child {
    Key separator;  // the low fence of the child
    RemotePtr pointer;
  };

  NodeVersion version{0};
  uint8_t level = 1;
  // Nobody changes it any more, and its left neighbour takes its children over; or, if it was the
  // root, its only child takes its place.
  bool frozen = false;
  HighFence high;
  RemotePtr sibling;
  std::vector<Child> children;  // at least one, in order of separator

  KeyView low() const { return children.front().separator; }
  // Whether it was the root, or is it still. Its only child covers all keys.
  bool was_root() const { return frozen && low().empty(); }
  // The child whose range contains `key`. Requires: low() <= key.
  size_t ChildIndex(KeyView key) const {
    assert(low() <= key);
    const auto above =
        std::upper_bound(children.begin() + 1, children.end(), key,
                         [](KeyView k, const Child& child) { return k < child.separator.view(); });
    return static_cast<size_t>(above - children.begin()) - 1;
  }
  // The last child whose range starts below `bound`. Requires: low() < bound.
  size_t ChildIndexBelow(KeyView bound) const {
    assert(low() < bound);
    const size_t index = ChildIndex(bound);
    return index != 0 && children[index].separator.view() == bound ? index - 1 : index;
  }
};

// What an encoded node takes without children.
inline uint32_t FixedBytes(const InternalNode& node) {
  const Key& low = node.children.front().separator;
  size_t bytes = kInternalHeaderBytes + low.size();
  if (!node.high.infinite) {
    bytes += node.high.key.size() - SharedBytes(low, node.high.key);
  }
  return static_cast<uint32_t>(bytes);
}
// What a child takes behind one with the separator `previous`.
inline uint32_t ChildBytes(const Key& previous, const Key& separator) {
  const size_t suffix = separator.size() - SharedBytes(previous, separator);
  return static_cast<uint32_t>(kLengthsBytes + suffix + internal::kPointerBytes);
}
// The encoded size of `node` in bytes.
inline uint32_t EncodedBytes(const InternalNode& node) {
  uint32_t bytes = FixedBytes(node) + internal::kPointerBytes;
  for (size_t i = 1; i < node.children.size(); ++i) {
    bytes += ChildBytes(node.children[i - 1].separator, node.children[i].separator);
  }
  return bytes;
}

namespace internal {

inline std::byte* AppendPointer(std::byte* at, RemotePtr pointer) {
  const uint64_t word = pointer.word();
  std::memcpy(at, &word, sizeof word);
  return at + sizeof word;
}
inline std::byte* AppendChild(std::byte* at, const InternalNode::Child& child, uint32_t shared) {
  return AppendPointer(AppendFrontCoded(at, child.separator, shared), child.pointer);
}

}  // namespace internal

// Writes the whole node to `out` (node_bytes), padded with zeros. Returns false, and writes
// nothing, if it does not fit: split it.
inline bool EncodeInternal(std::span<std::byte> out, RemotePtr self, const InternalNode& node) {
  if (EncodedBytes(node) > out.size()) return false;
  const Key& low = node.children.front().separator;
  InternalHeader header{};
  header.version = static_cast<uint32_t>(node.version);
  header.sibling = node.sibling.word();
  header.count = static_cast<uint16_t>(node.children.size());
  header.level = node.level;
  header.flags = static_cast<uint8_t>((node.high.infinite ? internal::kInfinite : 0) |
                                      (node.frozen ? internal::kFrozenNode : 0));
  header.low_bytes = static_cast<uint8_t>(low.size());

  std::byte* at = AppendSuffix(out.data() + kInternalHeaderBytes, low, 0);
  if (!node.high.infinite) {
    const Key& high = node.high.key;
    header.high_shared = static_cast<uint8_t>(SharedBytes(low, high));
    header.high_bytes = static_cast<uint8_t>(high.size() - header.high_shared);
    at = AppendSuffix(at, high, header.high_shared);
  }
  at = internal::AppendPointer(at, node.children.front().pointer);
  for (size_t i = 1; i < node.children.size(); ++i) {
    const InternalNode::Child& child = node.children[i];
    const Key& previous = node.children[i - 1].separator;
    at = internal::AppendChild(at, child, SharedBytes(previous, child.separator));
  }
  std::memset(at, 0, static_cast<size_t>(out.data() + out.size() - at));
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
    if (is_infinite()) return {};
    return HighFence::At(low().substr(0, header_.high_shared), {low().end(), header_.high_bytes});
  }
  // Calls visit(separator, pointer) for each child, in order. The separator is valid only during
  // the call.
  template <typename Visit>
  void ForEach(Visit&& visit) const {
    KeyRebuilder separators(low());
    uint32_t at = children_at();
    visit(low(), TakePointer(at));
    while (at < end_) {
      const KeyView separator = separators.Next(TakeSuffix(at));
      visit(separator, TakePointer(at));
    }
  }
  // Whether a child starts at `separator`. Requires: low() <= separator.
  bool HasChildAt(KeyView separator) const {
    if (separator == low()) return true;
    assert(low() < separator);
    const KeyPlace place = PlaceOf(separator);
    if (place.at == end() || place.shared + place.more != separator.size()) return false;
    const Suffix suffix = Suffix::At(place.at);
    return suffix.shared == place.shared && suffix.length == place.more;
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

  explicit InternalView(std::span<const std::byte> bytes)
      : data_(reinterpret_cast<const char*>(bytes.data())) {
    std::memcpy(static_cast<void*>(&header_), data_, kInternalHeaderBytes);
  }

  const char* end() const { return data_ + end_; }
  bool is_infinite() const { return (header_.flags & internal::kInfinite) != 0; }
  uint32_t children_at() const {
    return kInternalHeaderBytes + header_.low_bytes + header_.high_bytes;
  }
  RemotePtr TakePointer(uint32_t& at) const {
    uint64_t word;
    std::memcpy(&word, data_ + at, sizeof word);
    at += internal::kPointerBytes;
    return RemotePtr::FromWord(word);
  }
  Suffix TakeSuffix(uint32_t& at) const {
    const Suffix suffix = Suffix::At(data_ + at);
    at += kLengthsBytes + suffix.length;
    return suffix;
  }
  // A matching checksum implies, for a correct client's bytes, that this succeeds.
  bool FindEnd(size_t bytes) {
    const uint32_t high_bytes = uint32_t{header_.high_shared} + header_.high_bytes;
    if (header_.low_bytes > kMaxKeyBytes || header_.high_shared > header_.low_bytes ||
        high_bytes > kMaxKeyBytes || (is_infinite() && high_bytes != 0)) {
      return false;
    }
    end_ = children_at() + internal::kPointerBytes;
    uint32_t previous = header_.low_bytes;  // bytes of the separator before
    for (uint32_t others = header_.count - 1u; others != 0; --others) {
      if (end_ + kLengthsBytes > bytes) return false;
      const Suffix suffix = TakeSuffix(end_);
      end_ += internal::kPointerBytes;
      if (suffix.shared > previous || suffix.key_bytes() > kMaxKeyBytes) return false;
      previous = suffix.key_bytes();
    }
    return end_ <= bytes;
  }
  // Where a child that starts at `key` is or would be. Requires: low() < key.
  KeyPlace PlaceOf(KeyView key) const {
    assert(low() < key);
    const char* const second = data_ + children_at() + internal::kPointerBytes;
    return FindPlace(key, low(), second, end());
  }
  // What a child that starts at `key` adds to the node.
  static uint32_t BytesAt(const KeyPlace& place, KeyView key) {
    const size_t suffix = key.size() - place.shared - place.more;
    return static_cast<uint32_t>(kLengthsBytes + suffix + internal::kPointerBytes);
  }
  // Adds a child to the bytes, which are `image`, at its place.
  void AddAt(const KeyPlace& place, std::span<std::byte> image, const InternalNode::Child& child) {
    const uint32_t bytes = BytesAt(place, child.separator);
    std::byte* const to = image.data() + (place.at - data_);
    if (place.at == end()) {
      internal::AppendChild(to, child, place.shared);
    } else {
      // The next child shares more with it than with the one before, and keeps the rest of its
      // suffix.
      const Suffix old = Suffix::At(place.at);
      std::byte* const rest = to + kLengthsBytes + place.more;
      std::memmove(rest + bytes, rest, static_cast<size_t>(image.data() + end_ - rest));
      std::byte* const next = internal::AppendChild(to, child, place.shared);
      next[0] = static_cast<std::byte>(old.shared + place.more);
      next[1] = static_cast<std::byte>(old.length - place.more);
    }
    end_ += bytes;
    ++header_.count;
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

// Adds `children` to `image`, parsed as `view`, and makes it the content of `version`. Cheaper than
// to decode and encode it; the bytes are the same. Returns false, and writes nothing, if they do
// not fit. Several may just fit and be refused: EncodeInternal may find room.
// Requires: the separators ascend, lie within the node's range, and no child starts there.
inline bool AddInPlace(std::span<std::byte> image, RemotePtr self, NodeVersion version,
                       std::span<const InternalNode::Child> children, InternalView& view) {
  assert(std::ranges::is_sorted(children, std::less<>(),
                                [](const auto& child) { return child.separator.view(); }));
  KeyPlace place{};
  uint32_t more = 0;
  for (const InternalNode::Child& child : children) {
    place = view.PlaceOf(child.separator);
    more += InternalView::BytesAt(place, child.separator);  // or less, behind another of them
  }
  if (view.end_ + more > image.size()) return false;
  for (const InternalNode::Child& child : children) {
    if (children.size() != 1) place = view.PlaceOf(child.separator);
    view.AddAt(place, image, child);
  }
  view.header_.version = static_cast<uint32_t>(version);
  std::memcpy(image.data(), &view.header_, kInternalHeaderBytes);
  Seal(UnitSeed(self, 0), image);
  return true;
}

}  // namespace gossamer
