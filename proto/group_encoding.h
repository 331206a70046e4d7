// Writes and changes the units of a leaf. group.h reads them.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "proto/checksum.h"
#include "proto/entry.h"
#include "proto/group.h"
#include "proto/key.h"
#include "proto/remote_ptr.h"

namespace gossamer {

// Computes the encoded size of a group from its entries, added one by one.
class GroupSizer {
 public:
  // Of a group that stores `fence_bytes` of its bounds (Bounds::stored_bytes), and whose entries
  // are added with `prefix_bytes` that it does not store.
  GroupSizer(uint32_t fence_bytes, uint32_t prefix_bytes)
      : fixed_(kGroupHeaderBytes + fence_bytes), prefix_(prefix_bytes) {}
  explicit GroupSizer(const Bounds& bounds)
      : GroupSizer(bounds.stored_bytes(), static_cast<uint32_t>(bounds.prefix.size())) {}

  // Of a group without a fence that has `count` entries as `entry`, with whole keys.
  GroupSizer(const Entry& entry, uint32_t count) : GroupSizer(0, 0) {
    if (count != 0) Add(entry);
    payload_ *= count;
    count_ = count;
  }
  // Of the same entries without the first `prefix_bytes` of their keys. What is stored of long keys
  // does not change.
  GroupSizer WithoutPrefix(uint32_t prefix_bytes) const {
    GroupSizer sizer = *this;
    sizer.payload_ -= (count_ - long_count_) * prefix_bytes;
    if (count_ != 0 && key_bytes_ != internal::kVariable) {
      sizer.key_bytes_ = static_cast<uint8_t>(key_bytes_ - prefix_bytes);
    }
    return sizer;
  }

  void Add(const Entry& entry) { Add(entry, prefix_); }
  // The same, if it is known that a long key will be stored from byte `head_from` on.
  void Add(const Entry& entry, size_t head_from) {
    const auto key_bytes = static_cast<uint8_t>(entry.is_long() ? entry.StoredKey(head_from).size()
                                                                : entry.key.size() - prefix_);
    const uint8_t value_code = internal::ValueCode(entry);
    if (count_ == 0) {
      key_bytes_ = key_bytes;
      value_code_ = value_code;
    }
    // Without a prefix, others may have lengths that they have not with it.
    if (key_bytes != key_bytes_ || entry.is_long()) key_bytes_ = internal::kVariable;
    if (entry.is_long()) ++long_count_;
    if (value_code != value_code_) value_code_ = internal::kVariable;
    ++count_;
    payload_ += key_bytes + entry.StoredAndExpiryBytes();
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
  uint32_t prefix_;
  uint32_t payload_ = 0;
  uint32_t count_ = 0;
  uint32_t long_count_ = 0;  // of them, entries of long keys
  uint8_t key_bytes_ = 0;
  uint8_t value_code_ = 0;
};

// Writes a unit of out.size() bytes entry by entry, padded with zeros.
// Requires: `sizer` counts just the entries that will be added, and their bytes fit into `out` with
// the fence; entries do not point into `out`.
class GroupEncoder {
 public:
  // The keys of the entries begin with `stripped` bytes that are not stored: the prefix, or none if
  // they lack it already.
  GroupEncoder(std::span<std::byte> out, const Bounds& bounds, size_t stripped,
               const GroupSizer& sizer)
      : out_(out),
        at_(reinterpret_cast<char*>(out.data()) + kGroupHeaderBytes),
        stripped_(stripped),
        unstored_(bounds.prefix_of == PrefixOf::kHighFence ? KeyView() : bounds.prefix) {
    header_.count = static_cast<uint8_t>(sizer.count());
    header_.flags =
        static_cast<uint8_t>((bounds.infinite ? GroupView::kInfinite : 0) |
                             static_cast<unsigned>(bounds.prefix_of) << GroupView::kPrefixOfShift);
    header_.key_bytes = sizer.key_bytes();
    header_.value_code = sizer.value_code();
    header_.prefix_bytes = static_cast<uint8_t>(bounds.prefix.size());
    header_.fence_bytes = static_cast<uint8_t>(bounds.fence.size());
    if (bounds.states_shared()) *at_++ = static_cast<char>(bounds.shared);
    Append(bounds.fence);
  }

  void Add(const Entry& entry) {
    const KeyView suffix = entry.StoredKey(stripped_);
    if (header_.key_bytes == internal::kVariable) *at_++ = static_cast<char>(suffix.size());
    if (header_.value_code == internal::kVariable) {
      *at_++ = static_cast<char>(internal::ValueCode(entry));
    }
    Append(suffix);
    Append(entry.stored);
    if (entry.expires()) {
      internal::StoreExpiry(entry.expires_at, at_);
      at_ += kExpiryBytes;
    }
  }

  // The same, if keys and stored bytes have 8 bytes each.
  void AddWords(const Entry& entry) {
    // The first store may be longer than what is left of the key: the second one covers the rest.
    const uint64_t suffix = internal::LoadWord(entry.key) >> (8 * stripped_ & 63);
    std::memcpy(at_, &suffix, 8);
    at_ += 8 - stripped_;
    std::memcpy(at_, entry.stored.data(), 8);
    at_ += 8;
  }

  // What header, fence and the entries so far take.
  size_t bytes() const {
    return static_cast<size_t>(at_ - reinterpret_cast<const char*>(out_.data()));
  }

  // Ends the unit as unit `number` of the leaf at `leaf`.
  void Seal(RemotePtr leaf, uint32_t number, NodeVersion version, bool overflowed) {
    assert(bytes() <= out_.size());
    header_.version = static_cast<uint32_t>(version);
    if (overflowed) header_.flags |= GroupView::kOverflowed;
    auto* const base = reinterpret_cast<char*>(out_.data());
    std::memset(at_, 0, static_cast<size_t>(base + out_.size() - at_));
    std::memcpy(base, &header_, kGroupHeaderBytes);
    gossamer::Seal(UnitSeed(leaf, number, unstored_, unstored_.size()), out_);
  }

 private:
  void Append(std::string_view bytes) {
    assert(bytes.data() + bytes.size() <= reinterpret_cast<const char*>(out_.data()) ||
           bytes.data() >= reinterpret_cast<const char*>(out_.data() + out_.size()));
    if (bytes.size() == sizeof(uint64_t)) {
      std::memcpy(at_, bytes.data(), sizeof(uint64_t));  // of known size: one store
    } else {
      bytes.copy(at_, bytes.size());
    }
    at_ += bytes.size();
  }

  std::span<std::byte> out_;
  char* at_;
  size_t stripped_;
  KeyView unstored_;  // of the prefix
  GroupHeader header_{};
};

// Whether the keys of entries have the prefix of their leaf, or lack it as those in a view do.
enum class Keys : uint8_t { kWhole, kWithoutPrefix };

// Writes a whole unit of out.size() bytes, padded with zeros. Returns false, and writes nothing, if
// the entries do not fit. Requires (unchecked): entries do not point into `out`.
inline bool EncodeGroup(std::span<std::byte> out, RemotePtr leaf, uint32_t number,
                        NodeVersion version, bool overflowed, const Bounds& bounds,
                        std::span<const Entry> entries, Keys keys) {
  const size_t stripped = keys == Keys::kWhole ? bounds.prefix.size() : 0;
  GroupSizer sizer(bounds.stored_bytes(), static_cast<uint32_t>(stripped));
  for (const Entry& entry : entries) sizer.Add(entry);
  if (sizer.bytes() > out.size() || sizer.count() > GroupView::kMaxEntries) return false;
  GroupEncoder encoder(out, bounds, stripped, sizer);
  for (const Entry& entry : entries) encoder.Add(entry);
  encoder.Seal(leaf, number, version, overflowed);
  return true;
}

// Writes the checksum of `unit`. `within`: as for GroupView::Parse.
inline void SealUnit(std::span<std::byte> unit, RemotePtr leaf, uint32_t number, KeyView within) {
  Seal(UnitSeed(leaf, number, within, GroupView::PrefixBytesOf(unit)), unit);
}

// Whether the checksum of `unit` is right.
inline bool IsSealed(std::span<const std::byte> unit, RemotePtr leaf, uint32_t number,
                     KeyView within) {
  Checksum sum;
  std::memcpy(&sum, unit.data(), sizeof sum);
  return ChecksumOf(UnitSeed(leaf, number, within, GroupView::PrefixBytesOf(unit)), unit) == sum;
}

enum class Appended : uint8_t {
  kDone,
  kNoRoom,        // neither in place nor by encoding the unit again
  kOtherLengths,  // it may fit if the unit is encoded again
};

// Whether one may be written over the other.
inline bool HaveOneForm(const Entry& a, const Entry& b) {
  return a.stored.size() == b.stored.size() && a.kind == b.kind && a.expires() == b.expires();
}

// Writes what `fresh` stores over an entry of its form, of which that is at `at`. The unit is not
// sealed any more.
inline void OverwriteUnsealed(std::span<std::byte> unit, size_t at, const Entry& fresh) {
  auto* const to = reinterpret_cast<char*>(unit.data()) + at;
  if (fresh.stored.data() != to) fresh.stored.copy(to, fresh.stored.size());
  if (fresh.expires()) internal::StoreExpiry(fresh.expires_at, to + fresh.stored.size());
}

// Overwrites what is stored for a key in `unit`, and when that expires. Cheaper than encoding the
// unit again. Requires: `unit` is sealed; `old` was found in a view of it; `fresh` has its form.
inline void OverwriteStored(std::span<std::byte> unit, RemotePtr leaf, uint32_t number,
                            KeyView within, const Entry& old, const Entry& fresh) {
  assert(HaveOneForm(old, fresh));
  assert(IsSealed(unit, leaf, number, within));
  const auto at =
      static_cast<size_t>(old.stored.data() - reinterpret_cast<const char*>(unit.data()));
  if (!fresh.expires() && OverwriteSealed(unit, at, fresh.stored)) return;
  OverwriteUnsealed(unit, at, fresh);
  SealUnit(unit, leaf, number, within);
}

// Appends an entry to `unit`, parsed as `view`, if all entries have the same lengths and there is
// room. The result equals EncodeGroup's, but is cheaper. Otherwise writes nothing.
// Requires: the key has the prefix.
inline Appended AppendInPlace(std::span<std::byte> unit, RemotePtr leaf, uint32_t number,
                              const GroupView& view, const Entry& entry) {
  assert(entry.key.starts_with(view.prefix()));
  GroupHeader header = view.header_;
  const KeyView suffix = entry.StoredKey(view.prefix().size());
  if (header.count == 0 || header.key_bytes != suffix.size() ||
      header.value_code != internal::ValueCode(entry)) {
    return Appended::kOtherLengths;
  }
  const size_t stride = suffix.size() + entry.StoredAndExpiryBytes();
  const size_t at = view.entries_at_ + header.count * stride;
  if (header.count == GroupView::kMaxEntries || at + stride > unit.size()) return Appended::kNoRoom;
  ++header.count;
  std::memcpy(unit.data(), &header, kGroupHeaderBytes);
  std::memcpy(unit.data() + at, suffix.data(), suffix.size());
  OverwriteUnsealed(unit, at + suffix.size(), entry);
  SealUnit(unit, leaf, number, view.prefix());
  return Appended::kDone;
}

// Notes in `unit`, parsed as `view`, that entries of it are in the overflow group. That takes no
// room.
inline void MarkOverflowed(std::span<std::byte> unit, RemotePtr leaf, uint32_t number,
                           const GroupView& view) {
  GroupHeader header = view.header_;
  header.flags |= GroupView::kOverflowed;
  std::memcpy(unit.data(), &header, kGroupHeaderBytes);
  SealUnit(unit, leaf, number, view.prefix());
}

// Makes of a valid `unit` that of the leaf's next version, which is frozen or not. `within`: as for
// GroupView::Parse.
inline void SetFrozen(std::span<std::byte> unit, RemotePtr leaf, uint32_t number, KeyView within,
                      bool is_frozen) {
  GroupHeader header;
  std::memcpy(static_cast<void*>(&header), unit.data(), kGroupHeaderBytes);
  const unsigned others = header.flags & ~unsigned{GroupView::kFrozen};
  header.flags = static_cast<uint8_t>(others | (is_frozen ? GroupView::kFrozen : 0));
  ++header.version;
  std::memcpy(unit.data(), &header, kGroupHeaderBytes);
  SealUnit(unit, leaf, number, within);
}

}  // namespace gossamer
