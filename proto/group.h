// Groups: the units of a leaf that are read and written, and the view that accepts or rejects them.
//
// A group's checksum proves that its bytes are those of one write to this group of this leaf in
// this use of its memory (rule R1). Its high fence proves that a key belongs here. The node
// version, equal in all units of a leaf, ties units together (rule R2). LAYOUT.md draws the bytes.
//
// Bytes from remote memory become values only through `GroupView::Parse`; nullopt means "reread".
// Accepted bytes need no further check. A view points into the bytes that it was parsed from.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "proto/crc32c.h"
#include "proto/entry.h"
#include "proto/key.h"
#include "proto/leaf_geometry.h"
#include "proto/remote_ptr.h"
#include "proto/value_block.h"

namespace gossamer {

// Each structural change of a node increments it; equal in all units of the node.
enum class NodeVersion : uint32_t {};

constexpr NodeVersion Next(NodeVersion version) {
  return static_cast<NodeVersion>(static_cast<uint32_t>(version) + 1);
}

struct GroupHeader {
  uint32_t checksum;  // of everything behind it in the unit, seeded by UnitSeed
  uint32_t version;
  uint8_t count;
  uint8_t
      flags;  // bits 0..5: bytes of the high fence, 63: infinite; bit 6: frozen; bit 7: overflowed
  uint8_t key_bytes;   // of every key, or kVariable
  uint8_t value_code;  // of every entry: bytes of the value or kBlockCode, or kVariable
};
static_assert(sizeof(GroupHeader) == kGroupHeaderBytes && offsetof(GroupHeader, count) == 8);

// Computes the encoded size of a group from its entries, added one by one.
class GroupSizer {
 public:
  explicit GroupSizer(const HighFence& high)
      : fixed_(kGroupHeaderBytes + (high.infinite ? 0 : static_cast<uint32_t>(high.key.size()))) {}

  // Of a group without a fence that has `count` entries as `entry`.
  GroupSizer(const Entry& entry, uint32_t count) : GroupSizer(HighFence()) {
    if (count != 0) Add(entry);
    payload_ *= count;
    count_ = count;
  }

  void Add(const Entry& entry) {
    const auto key_bytes = static_cast<uint8_t>(entry.key.size());
    const uint8_t value_code = internal::ValueCode(entry);
    if (count_ == 0) {
      key_bytes_ = key_bytes;
      value_code_ = value_code;
    }
    if (key_bytes != key_bytes_) key_bytes_ = internal::kVariable;
    if (value_code != value_code_) value_code_ = internal::kVariable;
    ++count_;
    payload_ += key_bytes + static_cast<uint32_t>(entry.stored.size());
  }

  uint32_t bytes() const {
    return fixed_ + payload_ + (key_bytes_ == internal::kVariable ? count_ : 0) +
           (value_code_ == internal::kVariable ? count_ : 0);
  }
  uint32_t count() const { return count_; }
  uint8_t key_bytes() const { return key_bytes_; }
  uint8_t value_code() const { return value_code_; }

 private:
  uint32_t fixed_;
  uint32_t payload_ = 0;
  uint32_t count_ = 0;
  uint8_t key_bytes_ = 0;
  uint8_t value_code_ = 0;
};

// ---- Groups

enum class Appended : uint8_t {
  kDone,
  kNoRoom,        // neither in place nor by encoding the unit again
  kOtherLengths,  // it may fit if the unit is encoded again
};

class GroupView {
 public:
  // Reached only by 1-byte keys with empty values in the largest units.
  static constexpr uint32_t kMaxEntries = 128;

  // Accepts `unit` (unit_bytes of any content) as unit `number` of the leaf at `leaf`, or rejects it: reread.
  static std::optional<GroupView> Parse(std::span<const std::byte> unit, RemotePtr leaf,
                                        uint32_t number) {
    return Accept(unit, Crc32c(UnitSeed(leaf.word(), number), unit.subspan(sizeof(uint32_t))));
  }
  // The same with the checksum of those bytes computed already.
  static std::optional<GroupView> Accept(std::span<const std::byte> unit, uint32_t checksum) {
    GroupView view;
    std::memcpy(&view.header_, unit.data(), sizeof(GroupHeader));
    if (checksum != view.header_.checksum) return std::nullopt;
    view.data_ = reinterpret_cast<const char*>(unit.data());
    view.entries_at_ = kGroupHeaderBytes + view.fence_bytes();
    if (!view.EntriesFit(static_cast<uint32_t>(unit.size()))) return std::nullopt;
    return view;
  }

  NodeVersion version() const { return static_cast<NodeVersion>(header_.version); }
  uint32_t count() const { return header_.count; }
  // Whether entries of this home group are in the overflow group.
  bool overflowed() const { return (header_.flags & kOverflowed) != 0; }
  // Whether the leaf is frozen: nobody changes it any more, and its left neighbour takes its entries over.
  bool frozen() const { return (header_.flags & kFrozen) != 0; }
  HighFence high() const { return infinite() ? HighFence{} : HighFence::At(fence()); }
  // Whether `key` is the leaf's high fence.
  bool EndsAt(KeyView key) const { return !infinite() && fence() == key; }
  // Whether `key` lies below the leaf's high fence.
  bool Covers(KeyView key) const { return infinite() || PrefixedKey(key) < PrefixedKey(fence()); }
  // The same of a leaf that is not frozen.
  bool Admits(KeyView key) const { return !frozen() && Covers(key); }

  std::optional<Entry> Find(KeyView key) const {
    const uint32_t key_bytes = header_.key_bytes;
    const uint8_t code = header_.value_code;
    if (key_bytes != internal::kVariable && code != internal::kVariable) {
      if (key.size() != key_bytes) return std::nullopt;
      const uint32_t stride = key_bytes + internal::StoredBytes(code);
      const char* at = data_ + entries_at_;
      const bool is_word = key_bytes == sizeof(uint64_t);
      const uint64_t wanted = is_word ? internal::LoadWord(key) : 0;
      for (uint32_t i = 0; i < header_.count; ++i, at += stride) {
        if (is_word ? internal::LoadWord({at, key_bytes}) == wanted
                    : KeyView(at, key_bytes) == key) {
          return Entry{
              {at, key_bytes}, {at + key_bytes, stride - key_bytes}, code == internal::kBlockCode};
        }
      }
      return std::nullopt;
    }
    std::optional<Entry> found;
    ForEach([&](const Entry& entry) {
      if (entry.key == key) found = entry;
    });
    return found;
  }

  // Whether one more entry of mean length fits into the unit of `unit_bytes`.
  bool HasRoomForAnother(uint32_t unit_bytes) const {
    const uint32_t count = header_.count;
    if (count == 0) return true;
    uint32_t end = entries_at_;
    uint32_t mean = 0;
    if (header_.key_bytes != internal::kVariable && header_.value_code != internal::kVariable) {
      mean = header_.key_bytes + internal::StoredBytes(header_.value_code);
      end += count * mean;
    } else {
      for (uint32_t i = 0; i < count; ++i) Next(end);
      mean = (end - entries_at_ + count - 1) / count;
    }
    return count < kMaxEntries && end + mean <= unit_bytes;
  }

  // Of all entries.
  uint32_t entry_bytes() const {
    uint32_t end = entries_at_;
    if (const std::optional<Array> array = AsArray()) {
      return count() * (array->key_bytes + array->stored_bytes);
    }
    for (uint32_t i = 0; i < header_.count; ++i) Next(end);
    return end - entries_at_;
  }

  // Entries of one length each, back to back: each has `stored_bytes` behind `key_bytes`.
  struct Array {
    const char* first;
    uint32_t key_bytes;
    uint32_t stored_bytes;
    bool are_blocks;
  };
  // nullopt if their lengths differ.
  std::optional<Array> AsArray() const {
    const uint8_t code = header_.value_code;
    if (header_.key_bytes == internal::kVariable || code == internal::kVariable) {
      return std::nullopt;
    }
    return Array{data_ + entries_at_, header_.key_bytes, internal::StoredBytes(code),
                 code == internal::kBlockCode};
  }
  // Calls visit(entry) for each entry, in stored order.
  template <typename Visit>
  void ForEach(Visit&& visit) const {
    uint32_t at = entries_at_;
    for (uint32_t i = 0; i < header_.count; ++i) visit(Next(at));
  }

 private:
  static constexpr uint8_t kOverflowed = 0x80;
  static constexpr uint8_t kFrozen = 0x40;
  static constexpr uint8_t kFenceMask = 0x3f;
  static_assert(kMaxKeyBytes < kFenceMask);
  friend class GroupEncoder;
  friend class LeafView;
  friend Appended AppendInPlace(std::span<std::byte>, RemotePtr, uint32_t, const GroupView&,
                                const Entry&);
  friend void MarkOverflowed(std::span<std::byte>, RemotePtr, uint32_t, const GroupView&);
  friend void FreezeGroup(std::span<std::byte>, RemotePtr, uint32_t);

  GroupView() = default;

  bool infinite() const { return (header_.flags & kFenceMask) == kFenceMask; }
  uint32_t fence_bytes() const { return infinite() ? 0 : header_.flags & kFenceMask; }
  KeyView fence() const { return {data_ + kGroupHeaderBytes, fence_bytes()}; }

  Entry Next(uint32_t& at) const {
    uint32_t key_bytes = header_.key_bytes;
    uint8_t code = header_.value_code;
    if (key_bytes == internal::kVariable) key_bytes = static_cast<uint8_t>(data_[at++]);
    if (code == internal::kVariable) code = static_cast<uint8_t>(data_[at++]);
    const uint32_t stored = internal::StoredBytes(code);
    const Entry entry{
        {data_ + at, key_bytes}, {data_ + at + key_bytes, stored}, code == internal::kBlockCode};
    at += key_bytes + stored;
    return entry;
  }

  // Whether the lengths stay inside the unit and no value exceeds the limit. A matching checksum
  // implies this for a correct client's bytes; the check keeps views safe from other bytes.
  bool EntriesFit(uint32_t unit_bytes) const {
    if (fence_bytes() > kMaxKeyBytes || header_.count > kMaxEntries) return false;
    if (header_.key_bytes != internal::kVariable && header_.value_code != internal::kVariable) {
      const uint32_t stride = header_.key_bytes + internal::StoredBytes(header_.value_code);
      if (header_.key_bytes > kMaxKeyBytes || entries_at_ + header_.count * stride > unit_bytes) {
        return false;
      }
      if (header_.value_code != internal::kBlockCode) return true;
    }
    const uint32_t prefix = (header_.key_bytes == internal::kVariable ? 1 : 0) +
                            (header_.value_code == internal::kVariable ? 1 : 0);
    uint32_t at = entries_at_;
    for (uint32_t i = 0; i < header_.count; ++i) {
      if (at + prefix > unit_bytes) return false;
      const Entry entry = Next(at);
      if (entry.key.size() > kMaxKeyBytes || at > unit_bytes) return false;
      if (entry.is_block && entry.block().length > kMaxValueBytes) return false;
    }
    return true;
  }

  GroupHeader header_;
  const char* data_;
  uint32_t entries_at_;
};

// Writes a unit of out.size() bytes entry by entry, padded with zeros.
// Requires: `sizer` counts just the entries that will be added, and their bytes fit into `out` with the fence; entries
// do not point into `out`.
class GroupEncoder {
 public:
  GroupEncoder(std::span<std::byte> out, const HighFence& high, const GroupSizer& sizer)
      : out_(out), at_(reinterpret_cast<char*>(out.data()) + kGroupHeaderBytes) {
    header_.count = static_cast<uint8_t>(sizer.count());
    header_.flags = high.infinite ? GroupView::kFenceMask : static_cast<uint8_t>(high.key.size());
    header_.key_bytes = sizer.key_bytes();
    header_.value_code = sizer.value_code();
    if (!high.infinite) Append(high.key);
  }

  void Add(const Entry& entry) {
    if (header_.key_bytes == internal::kVariable) *at_++ = static_cast<char>(entry.key.size());
    if (header_.value_code == internal::kVariable) {
      *at_++ = static_cast<char>(internal::ValueCode(entry));
    }
    Append(entry.key);
    Append(entry.stored);
  }

  // The same, if the unit's keys and stored bytes have 8 bytes each.
  void AddWords(const Entry& entry) {
    std::memcpy(at_, entry.key.data(), 8);
    std::memcpy(at_ + 8, entry.stored.data(), 8);
    at_ += 16;
  }

  // Ends the unit as unit `number` of the leaf at `leaf`.
  void Seal(RemotePtr leaf, uint32_t number, NodeVersion version, bool overflowed) {
    header_.version = static_cast<uint32_t>(version);
    if (overflowed) header_.flags |= GroupView::kOverflowed;
    auto* const base = reinterpret_cast<char*>(out_.data());
    std::memset(at_, 0, static_cast<size_t>(base + out_.size() - at_));
    std::memcpy(base, &header_, sizeof header_);
    header_.checksum = Crc32c(UnitSeed(leaf.word(), number), out_.subspan(sizeof(uint32_t)));
    std::memcpy(base, &header_.checksum, sizeof header_.checksum);
  }

 private:
  void Append(std::string_view bytes) {
    if (bytes.size() == sizeof(uint64_t)) {
      std::memcpy(at_, bytes.data(), sizeof(uint64_t));  // of known size: one store
    } else {
      bytes.copy(at_, bytes.size());
    }
    at_ += bytes.size();
  }

  std::span<std::byte> out_;
  char* at_;
  GroupHeader header_{};
};

// Writes a whole unit of out.size() bytes, padded with zeros. Returns false, and writes nothing, if
// the entries do not fit. Requires: entries do not point into `out`.
inline bool EncodeGroup(std::span<std::byte> out, RemotePtr leaf, uint32_t number,
                        NodeVersion version, bool overflowed, const HighFence& high,
                        std::span<const Entry> entries) {
  GroupSizer sizer(high);
  for (const Entry& entry : entries) sizer.Add(entry);
  if (sizer.bytes() > out.size() || sizer.count() > GroupView::kMaxEntries) return false;
  GroupEncoder encoder(out, high, sizer);
  for (const Entry& entry : entries) encoder.Add(entry);
  encoder.Seal(leaf, number, version, overflowed);
  return true;
}

namespace internal {

inline void Seal(std::span<std::byte> unit, RemotePtr leaf, uint32_t number) {
  const uint32_t checksum = Crc32c(UnitSeed(leaf.word(), number), unit.subspan(sizeof(uint32_t)));
  std::memcpy(unit.data(), &checksum, sizeof checksum);
}

}  // namespace internal

// Overwrites the stored bytes of a key in `unit`. Cheaper than encoding the unit again. Requires:
// `old` was found in a view of `unit`; `fresh` has its length and kind.
inline void OverwriteStored(std::span<std::byte> unit, RemotePtr leaf, uint32_t number,
                            const Entry& old, const Entry& fresh) {
  assert(old.stored.size() == fresh.stored.size() && old.is_block == fresh.is_block);
  const auto at = old.stored.data() - reinterpret_cast<const char*>(unit.data());
  std::memcpy(unit.data() + at, fresh.stored.data(), fresh.stored.size());
  internal::Seal(unit, leaf, number);
}

// Appends an entry to `unit`, parsed as `view`, if all entries have the same lengths and there is room. The result
// equals EncodeGroup's, but is cheaper. Otherwise writes nothing.
inline Appended AppendInPlace(std::span<std::byte> unit, RemotePtr leaf, uint32_t number,
                              const GroupView& view, const Entry& entry) {
  GroupHeader header = view.header_;
  if (header.count == 0 || header.key_bytes != entry.key.size() ||
      header.value_code != internal::ValueCode(entry)) {
    return Appended::kOtherLengths;
  }
  const size_t stride = entry.key.size() + entry.stored.size();
  const size_t at = view.entries_at_ + header.count * stride;
  if (header.count == GroupView::kMaxEntries || at + stride > unit.size()) return Appended::kNoRoom;
  ++header.count;
  std::memcpy(unit.data(), &header, sizeof header);
  std::memcpy(unit.data() + at, entry.key.data(), entry.key.size());
  std::memcpy(unit.data() + at + entry.key.size(), entry.stored.data(), entry.stored.size());
  internal::Seal(unit, leaf, number);
  return Appended::kDone;
}

// Notes in `unit`, parsed as `view`, that entries of it are in the overflow group. That takes no room.
inline void MarkOverflowed(std::span<std::byte> unit, RemotePtr leaf, uint32_t number,
                           const GroupView& view) {
  GroupHeader header = view.header_;
  header.flags |= GroupView::kOverflowed;
  std::memcpy(unit.data(), &header, sizeof header);
  internal::Seal(unit, leaf, number);
}

// Makes of a valid `unit` that of the frozen leaf, whose version is the next one.
inline void FreezeGroup(std::span<std::byte> unit, RemotePtr leaf, uint32_t number) {
  GroupHeader header;
  std::memcpy(&header, unit.data(), sizeof header);
  header.flags |= GroupView::kFrozen;
  ++header.version;
  std::memcpy(unit.data(), &header, sizeof header);
  internal::Seal(unit, leaf, number);
}

}  // namespace gossamer
