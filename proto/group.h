// Groups: the units of a leaf that are read and written, and the view that accepts or rejects them.
// group_encoding.h writes them.
//
// A group's checksum proves that its bytes are those of one write to this group of this leaf in
// this use of its memory (rule R1). Its high fence proves that a key belongs here. The node
// version, equal in all units of a leaf, ties units together (rule R2). LAYOUT.md draws the bytes.
//
// A unit has its keys without the *prefix* of the leaf. Usually that is what both fences share, and
// so every key between them; the high fence is then stored without it, too. A reader knows a key in
// the leaf's range, usually the low fence, and takes the prefix from that. The checksum starts from
// the prefix: with another prefix in mind a reader rejects the unit.
//
// The keys that a leaf has may share more than its range does: a leaf at the edge of the tree has
// keys of one kind and no second fence, for example. It may then have a prefix of its own
// (Bounds::PrefixOf). A key without that is not in the leaf.
//
// Bytes from remote memory become values only through `GroupView::Parse`; nullopt means "reread".
// Accepted bytes need no further check. A view points into the bytes, and into the key, that it was
// parsed with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "proto/bounds.h"
#include "proto/checksum.h"
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
  Checksum checksum;  // of everything behind it in the unit, from UnitSeed
  uint32_t version;
  uint8_t count;
  uint8_t flags;      // bit 0: the high fence is infinite; 1, 2: PrefixOf; 6: frozen; 7: overflowed
  uint8_t key_bytes;  // of every key, or kVariable
  uint8_t value_code;    // of every entry: internal::ValueCode; or kVariable
  uint8_t prefix_bytes;  // of every key, not stored
  uint8_t fence_bytes;   // of the high fence, as far as it is stored
};
// The struct is longer than what is stored: its alignment pads it.
static_assert(offsetof(GroupHeader, count) == 12 &&
              offsetof(GroupHeader, fence_bytes) + 1 == kGroupHeaderBytes);

enum class Appended : uint8_t;  // group_encoding.h

class GroupView {
 public:
  // Only the functions below can make one.
  struct Unchecked {
   private:
    friend class GroupView;
    explicit Unchecked() = default;
  };
  GroupView(Unchecked, std::span<const std::byte> unit, KeyView within)
      : data_(reinterpret_cast<const char*>(unit.data())) {
    std::memcpy(static_cast<void*>(&header_), data_, kGroupHeaderBytes);
    entries_at_ = kGroupHeaderBytes + header_.fence_bytes;
    prefix_ = within.substr(0, header_.prefix_bytes);
    if (has_own_prefix()) [[unlikely]]
      FindOwnPrefix();
  }

  // Reached only by 1-byte keys with empty values in the largest units.
  static constexpr uint32_t kMaxEntries = 128;

  // Accepts `unit` (unit_bytes of any content) as unit `number` of the leaf at `leaf`, or rejects
  // it: reread. `within` is the leaf's low fence, or another key in its range; it lives as long as
  // the view. If it is above the range, as a reader with a stale path may have it, the unit is
  // rejected or does not cover it. A unit with a prefix of its own is rejected with a key that
  // lacks it: then the low fence decides.
  static std::optional<GroupView> Parse(std::span<const std::byte> unit, RemotePtr leaf,
                                        uint32_t number, KeyView within) {
    // In place: to copy a view just made stalls on store forwarding.
    std::optional<GroupView> view(std::in_place, Unchecked(), unit, within);
    if (!view->IsOf(unit, leaf, number, within)) view.reset();
    return view;
  }
  // The same, in place: `place` has room for a view. nullptr: rejected.
  static const GroupView* ParseAt(std::byte* place, std::span<const std::byte> unit, RemotePtr leaf,
                                  uint32_t number, KeyView within) {
    const auto* const view =
        std::construct_at(reinterpret_cast<GroupView*>(place), Unchecked(), unit, within);
    return view->IsOf(unit, leaf, number, within) ? view : nullptr;
  }
  // Of a unit that this client has just written.
  static GroupView Trust(std::span<const std::byte> unit, KeyView within) {
    return GroupView(Unchecked(), unit, within);
  }
  // The length of the prefix that `unit` (any bytes) does not store.
  static size_t PrefixBytesOf(std::span<const std::byte> unit) {
    const auto flags = static_cast<uint8_t>(unit[offsetof(GroupHeader, flags)]);
    if (PrefixOfFlags(flags) == PrefixOf::kHighFence) return 0;
    return static_cast<uint8_t>(unit[offsetof(GroupHeader, prefix_bytes)]);
  }

  NodeVersion version() const { return static_cast<NodeVersion>(header_.version); }
  uint32_t count() const { return header_.count; }
  // Whether entries of this home group are in the overflow group.
  bool overflowed() const { return (header_.flags & kOverflowed) != 0; }
  // Whether the leaf is frozen: nobody changes it any more, and its left neighbour takes its
  // entries over.
  bool frozen() const { return (header_.flags & kFrozen) != 0; }
  // What every key in the leaf starts with. The keys of the view's entries lack it.
  KeyView prefix() const { return prefix_; }
  // Whether `key` has that.
  bool HasPrefix(KeyView key) const {
    // Without a call if the unit was parsed with this key, or the prefix is short.
    if (key.data() == prefix_.data()) return key.size() >= prefix_.size();
    return StartsWith(key, prefix_);
  }
  Bounds bounds() const { return {prefix_, fence(), infinite(), prefix_of(), shared()}; }
  HighFence high() const {
    return infinite() ? HighFence{} : HighFence::At(prefix_.substr(0, shared()), fence());
  }
  // False only if no entry is that of a long key.
  bool may_have_long() const {
    const uint8_t code = header_.value_code;
    return code == internal::kVariable || internal::KindOf(code) == Entry::Kind::kLong;
  }
  // Whether both state the same range. Units of one leaf do, unless a client that wrote them was
  // wrong.
  bool HasBoundsOf(const GroupView& other) const {
    return infinite() == other.infinite() && prefix_.size() == other.prefix_.size() &&
           prefix_of() == other.prefix_of() && shared() == other.shared() &&
           fence() == other.fence();
  }
  // Whether `key` is the leaf's high fence.
  bool EndsAt(KeyView key) const {
    return !infinite() && StartsWith(key, prefix_.substr(0, shared())) &&
           key.substr(shared()) == fence();
  }
  // Whether `key`, which is not below the leaf's low fence, lies below its high fence.
  bool Covers(KeyView key) const {
    if (infinite()) return true;
    if (has_own_prefix()) [[unlikely]]
      return CoversApart(key);
    // A key without the prefix that is not below the low fence is above all that have it.
    if (!HasPrefix(key)) return false;
    return PrefixedKey(Suffix(key), FirstBytesBehind(key, prefix_.size())) <
           PrefixedKey(fence(), FirstBytesOfFence());
  }
  // The same of a leaf that is not frozen.
  bool Admits(KeyView key) const { return !frozen() && Covers(key); }

  // The entry of `key`, without the prefix. Not if the leaf has it as a long key: see FindLong.
  std::optional<Entry> Find(KeyView key) const {
    if (!HasPrefix(key)) return std::nullopt;
    const KeyView suffix = Suffix(key);
    const uint32_t key_bytes = header_.key_bytes;
    const uint8_t code = header_.value_code;
    if (key_bytes != internal::kVariable && code != internal::kVariable) {
      if (suffix.size() != key_bytes || internal::KindOf(code) == Entry::Kind::kLong) {
        return std::nullopt;
      }
      const uint32_t stride = key_bytes + internal::StoredAndExpiryBytes(code);
      const char* at = data_ + entries_at_;
      const auto entry_at = [&](const char* from) { return EntryAt(from, key_bytes, code); };
      if (key_bytes <= sizeof(uint64_t) && stride != 0) {
        // 8 bytes that begin with an entry hold the key: without a call for each. Of a shorter
        // entry, 8 bytes that end with it: the header is before the first.
        static_assert(kGroupHeaderBytes >= sizeof(uint64_t));
        const uint32_t before = stride < sizeof(uint64_t) ? sizeof(uint64_t) - stride : 0;
        const uint64_t wanted = FirstBytesBehind(key, prefix_.size());
        const uint64_t mask = FirstBytesMask(key_bytes);
        for (uint32_t left = header_.count; left != 0; --left, at += stride) {
          const uint64_t word = internal::LoadWord({at - before, sizeof(uint64_t)}) >> (8 * before);
          if ((word & mask) == wanted) return entry_at(at);
        }
        return std::nullopt;
      }
      return FindInArray(suffix);
    }
    return FindAmongMixed(suffix);
  }
  // The entry of `key`, if the leaf has that as a long key: the first one with its hash and first
  // bytes of which is_it(entry) says that it is.
  template <typename IsIt>
  std::optional<Entry> FindLong(KeyView key, uint64_t key_hash, IsIt&& is_it) const {
    std::optional<Entry> found;
    if (!may_have_long() || !HasPrefix(key)) return found;
    const KeyView suffix = Suffix(key);
    ForEach([&](const Entry& entry) {
      if (!found && entry.is_long() && entry.key_hash() == key_hash &&
          suffix.starts_with(entry.key) && is_it(entry)) {
        found = entry;
      }
    });
    return found;
  }

  // Whether one more entry of mean length fits into the unit of `unit_bytes`.
  bool HasRoomForAnother(uint32_t unit_bytes) const {
    const uint32_t count = header_.count;
    if (count == 0) return true;
    const uint32_t bytes = entry_bytes();
    const uint32_t mean = (bytes + count - 1) / count;
    return count < kMaxEntries && entries_at_ + bytes + mean <= unit_bytes;
  }

  // Of all entries, as they are stored.
  uint32_t entry_bytes() const {
    uint32_t end = entries_at_;
    if (const std::optional<Array> array = AsArray()) {
      return count() * array->stride();
    }
    for (uint32_t i = 0; i < header_.count; ++i) end = ExtentAt(end).end();
    return end - entries_at_;
  }

  // Entries of one length each, back to back: each has `stored_bytes` behind `key_bytes`, and
  // perhaps the time when it expires behind that.
  struct Array {
    const char* first;
    uint32_t key_bytes;
    uint32_t stored_bytes;
    Entry::Kind kind;
    bool expires;
    uint32_t stride() const { return key_bytes + stored_bytes + (expires ? kExpiryBytes : 0); }
  };
  // nullopt if their lengths differ.
  std::optional<Array> AsArray() const {
    const uint8_t code = header_.value_code;
    if (header_.key_bytes == internal::kVariable || code == internal::kVariable) {
      return std::nullopt;
    }
    return Array{data_ + entries_at_, header_.key_bytes, internal::StoredBytes(code),
                 internal::KindOf(code), internal::Expires(code)};
  }
  // Calls visit(entry) for each entry, in stored order. Its key lacks the prefix, and a long one
  // what follows its first bytes.
  template <typename Visit>
  void ForEach(Visit&& visit) const {
    uint32_t at = entries_at_;
    for (uint32_t i = 0; i < header_.count; ++i) visit(Next(at));
  }

 private:
  static constexpr uint8_t kOverflowed = 0x80;
  static constexpr uint8_t kFrozen = 0x40;
  static constexpr uint8_t kInfinite = 0x01;
  static constexpr uint8_t kPrefixOfShift = 1;
  static constexpr uint8_t kPrefixOfMask = 0x06;
  friend class GroupEncoder;
  friend class LeafView;
  friend Appended AppendInPlace(std::span<std::byte>, RemotePtr, uint32_t, const GroupView&,
                                const Entry&);
  friend void MarkOverflowed(std::span<std::byte>, RemotePtr, uint32_t, const GroupView&);
  friend void SetFrozen(std::span<std::byte>, RemotePtr, uint32_t, KeyView, bool);

  // For LeafView.
  GroupView() = default;

  bool IsOf(std::span<const std::byte> unit, RemotePtr leaf, uint32_t number,
            KeyView within) const {
    const size_t unstored = prefix_of() == PrefixOf::kHighFence ? 0 : header_.prefix_bytes;
    return ChecksumOf(UnitSeed(leaf, number, within, unstored), unit) == header_.checksum &&
           unstored <= within.size() && EntriesFit(static_cast<uint32_t>(unit.size()));
  }

  static PrefixOf PrefixOfFlags(uint8_t flags) {
    return static_cast<PrefixOf>((flags & kPrefixOfMask) >> kPrefixOfShift);
  }
  PrefixOf prefix_of() const { return PrefixOfFlags(header_.flags); }
  bool has_own_prefix() const { return (header_.flags & kPrefixOfMask) != 0; }
  bool states_shared() const { return prefix_of() == PrefixOf::kLowFence && !infinite(); }
  uint8_t shared() const {
    if (!has_own_prefix()) return header_.prefix_bytes;
    return states_shared() ? static_cast<uint8_t>(data_[kGroupHeaderBytes]) : 0;
  }
  // Out of line, as most units have none.
  [[gnu::noinline]] void FindOwnPrefix() {
    if (states_shared()) ++entries_at_;
    if (prefix_of() == PrefixOf::kHighFence) {
      prefix_ = {data_ + kGroupHeaderBytes, header_.prefix_bytes};
    }
  }
  // Covers, of a unit with a prefix of its own.
  [[gnu::noinline]] bool CoversApart(KeyView key) const {
    // As there: a key without what the fences share is above the range.
    return key.starts_with(prefix_.substr(0, shared())) && key.substr(shared()) < fence();
  }

  bool infinite() const { return (header_.flags & kInfinite) != 0; }
  KeyView fence() const { return {data_ + entries_at_ - header_.fence_bytes, header_.fence_bytes}; }
  // Without a branch, as lengths of fences are hard to predict: a unit has so many bytes.
  uint64_t FirstBytesOfFence() const {
    return internal::LoadWord({data_ + kGroupHeaderBytes, sizeof(uint64_t)}) &
           FirstBytesMask(header_.fence_bytes);
  }
  KeyView Suffix(KeyView key) const { return key.substr(prefix_.size()); }

  // Out of line, so that Find needs no frame for it.
  [[gnu::noinline]] std::optional<Entry> FindAmongMixed(KeyView suffix) const {
    if (HasOneShortKeyLength()) return FindAmongValues(suffix);
    uint32_t at = entries_at_;
    for (uint32_t left = header_.count; left != 0; --left) {
      const Entry entry = Next(at);
      if (AreEqual(entry.key, suffix) && !entry.is_long()) return entry;
    }
    return std::nullopt;
  }
  // Whether all keys have one length, from 1 to 8 bytes, and the values several.
  bool HasOneShortKeyLength() const {
    return header_.value_code == internal::kVariable && header_.key_bytes != 0 &&
           header_.key_bytes <= sizeof(uint64_t);
  }
  // Of such a unit.
  std::optional<Entry> FindAmongValues(KeyView suffix) const {
    const uint32_t key_bytes = header_.key_bytes;
    if (suffix.size() != key_bytes) return std::nullopt;
    // 8 bytes that end with a key hold it: the header is before the first.
    const uint32_t before = static_cast<uint32_t>(sizeof(uint64_t)) - key_bytes;
    const uint64_t wanted = FirstBytes(suffix);
    const char* at = data_ + entries_at_;
    for (uint32_t left = header_.count; left != 0; --left) {
      const auto code = static_cast<uint8_t>(*at++);
      const uint64_t word = internal::LoadWord({at - before, sizeof(uint64_t)}) >> (8 * before);
      if (word == wanted && internal::KindOf(code) != Entry::Kind::kLong) {
        return EntryAt(at, key_bytes, code);
      }
      at += key_bytes + internal::StoredAndExpiryBytes(code);
    }
    return std::nullopt;
  }
  [[gnu::noinline]] std::optional<Entry> FindInArray(KeyView suffix) const {
    const Array array = *AsArray();
    const uint32_t stride = array.stride();
    const char* at = array.first;
    const auto entry_at = [&](const char* from) {
      return EntryAt(from, array.key_bytes, header_.value_code);
    };
    if (array.key_bytes < sizeof(uint64_t)) {  // of entries without a byte, there is one at most
      return header_.count == 0 ? std::nullopt : std::optional(entry_at(at));
    }
    // Keys that are alike at first differ in their last bytes.
    const uint32_t last = array.key_bytes - static_cast<uint32_t>(sizeof(uint64_t));
    const uint64_t wanted = internal::LoadWord(suffix.substr(last));
    for (uint32_t left = header_.count; left != 0; --left, at += stride) {
      if (internal::LoadWord({at + last, sizeof(uint64_t)}) == wanted &&
          std::memcmp(at, suffix.data(), last) == 0) {
        return entry_at(at);
      }
    }
    return std::nullopt;
  }

  static Entry EntryAt(const char* from, uint32_t key_bytes, uint8_t code) {
    const uint32_t stored = internal::StoredBytes(code);
    const char* const behind = from + key_bytes + stored;
    return {{from, key_bytes},
            {from + key_bytes, stored},
            internal::KindOf(code),
            internal::Expires(code) ? internal::LoadExpiry(behind) : 0};
  }
  // Where an entry's key, value and time are, from the lengths before them alone.
  struct Extent {
    uint32_t at;  // of the key
    uint32_t key_bytes;
    uint8_t code;
    uint32_t end() const { return at + key_bytes + internal::StoredAndExpiryBytes(code); }
  };
  Extent ExtentAt(uint32_t at) const {
    uint32_t key_bytes = header_.key_bytes;
    uint8_t code = header_.value_code;
    if (key_bytes == internal::kVariable) key_bytes = static_cast<uint8_t>(data_[at++]);
    if (code == internal::kVariable) code = static_cast<uint8_t>(data_[at++]);
    return {at, key_bytes, code};
  }
  Entry EntryOf(const Extent& extent) const {
    return EntryAt(data_ + extent.at, extent.key_bytes, extent.code);
  }
  Entry Next(uint32_t& at) const {
    const Extent extent = ExtentAt(at);
    at = extent.end();
    return EntryOf(extent);
  }

  // Whether prefix and high fence may be those of a leaf.
  bool BoundsFit() const {
    const uint32_t prefix_bytes = header_.prefix_bytes;
    if (shared() + uint32_t{header_.fence_bytes} > kMaxKeyBytes) return false;
    if (infinite() && header_.fence_bytes != 0) return false;
    switch (prefix_of()) {
      case PrefixOf::kBoth: return !infinite() || prefix_bytes == 0;
      case PrefixOf::kLowFence: return prefix_bytes > shared();
      case PrefixOf::kHighFence: return !infinite() && prefix_bytes <= header_.fence_bytes;
    }
    return false;
  }

  // EntriesFit, of a unit that HasOneShortKeyLength.
  bool ValuesFit(uint32_t unit_bytes) const {
    uint32_t at = entries_at_;
    for (uint32_t left = header_.count; left != 0; --left) {
      if (at >= unit_bytes) return false;
      const auto code = static_cast<uint8_t>(data_[at]);
      const uint32_t stored_at = at + 1 + header_.key_bytes;
      at = stored_at + internal::StoredAndExpiryBytes(code);
      if (at > unit_bytes) return false;
      if (internal::KindOf(code) == Entry::Kind::kInline) continue;
      uint32_t length;
      std::memcpy(&length, data_ + stored_at + offsetof(BlockRef, length), sizeof length);
      if (length > kMaxContentBytes) return false;
    }
    return true;
  }
  // Whether no value exceeds the limit, of entries of `stride` bytes that all have a BlockRef.
  bool BlocksFit(uint32_t stride) const {
    const char* length = data_ + entries_at_ + header_.key_bytes + offsetof(BlockRef, length);
    uint32_t longest = 0;
    for (uint32_t left = header_.count; left != 0; --left, length += stride) {
      uint32_t one;
      std::memcpy(&one, length, sizeof one);
      longest = std::max(longest, one);
    }
    return longest <= kMaxContentBytes;
  }
  // Whether the lengths stay inside the unit and no value exceeds the limit. A matching checksum
  // implies this for a correct client's bytes; the check keeps views safe from other bytes.
  bool EntriesFit(uint32_t unit_bytes) const {
    const uint32_t prefix_bytes = header_.prefix_bytes;
    if (header_.count > kMaxEntries || prefix_bytes > kMaxKeyBytes || entries_at_ > unit_bytes ||
        !BoundsFit()) {
      return false;
    }
    if (header_.key_bytes != internal::kVariable && header_.value_code != internal::kVariable) {
      const uint32_t stride =
          header_.key_bytes + internal::StoredAndExpiryBytes(header_.value_code);
      if (prefix_bytes + header_.key_bytes > kMaxKeyBytes ||
          entries_at_ + header_.count * stride > unit_bytes) {
        return false;
      }
      const Entry::Kind kind = internal::KindOf(header_.value_code);
      if (kind == Entry::Kind::kInline) return true;
      if (kind == Entry::Kind::kBlock) return BlocksFit(stride);
    }
    if (HasOneShortKeyLength()) {
      return prefix_bytes + header_.key_bytes <= kMaxKeyBytes && ValuesFit(unit_bytes);
    }
    const uint32_t lengths = (header_.key_bytes == internal::kVariable ? 1 : 0) +
                             (header_.value_code == internal::kVariable ? 1 : 0);
    uint32_t at = entries_at_;
    for (uint32_t i = 0; i < header_.count; ++i) {
      if (at + lengths > unit_bytes) return false;
      const Extent extent = ExtentAt(at);
      at = extent.end();
      if (prefix_bytes + extent.key_bytes > kMaxKeyBytes || at > unit_bytes) return false;
      const Entry entry = EntryOf(extent);
      if (entry.has_block() && entry.block().length > kMaxContentBytes) return false;
    }
    return true;
  }

  GroupHeader header_;
  const char* data_;
  uint32_t entries_at_;
  KeyView prefix_;
};

}  // namespace gossamer
