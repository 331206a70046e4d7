// LeafEditor: the image of a locked leaf, as it is read, changed and written back. No verbs.
//
// Invariant: every known unit of the image is valid, and all are of one node version. No other
// client changes the leaf meanwhile.
//
// Operations are applied to the image one after the other; then the changed units are written
// together. To a reader, each operation is one change. An entry stays in its unit (rule W3): if it
// would move or does not fit, `Apply` returns that and changes nothing.
//
// Thread-safety: none.
// Cost: no allocation; a checksum for each unit looked at and each unit changed.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "compute/leaf/expiry_clock.h"
#include "compute/leaf/modification.h"
#include "gossamer/counters.h"
#include "gossamer/expiry.h"
#include "proto/leaf.h"

namespace gossamer {

// A leaf that is filled to less than this part after a delete may be worth a merge. Groups of one
// leaf differ: some look so in a leaf that is twice as full.
inline constexpr size_t kSparseFraction = 4;

// Long keys of a leaf that were read from their blocks, by the blocks' pointers.
using LongKeys = std::map<uint64_t, Key>;

enum class WriteMode : uint8_t {
  kPut,
  kInsert,
  kUpdate,
  kDelete,
  kModify,  // needs a Modification
  kExpire,  // deletes a key that has expired; a sweep's
};
// The modes of plain writes, the first ones.
inline constexpr size_t kWriteModes = 4;
static_assert(static_cast<size_t>(WriteMode::kDelete) + 1 == kWriteModes);

// Whether a write of that mode stores nothing.
constexpr bool Removes(WriteMode mode) {
  return mode == WriteMode::kDelete || mode == WriteMode::kExpire;
}

// How a write is classified until it has run.
constexpr OperationClass ClassOf(WriteMode mode) {
  if (Removes(mode)) return OperationClass::kDelete;
  return mode == WriteMode::kInsert ? OperationClass::kInsert : OperationClass::kUpdate;
}

// One write, and its result.
struct LeafWrite {
  WriteMode mode = WriteMode::kPut;
  uint64_t hash = 0;  // KeyHash of the key
  uint32_t unit = 0;  // the key's home group in this store's leaves
  Entry entry;        // of a delete, the key alone. When it expires follows from `expiry`
  Expiry expiry;
  bool is_new = false;       // the key is probably not there yet
  bool is_too_long = false;  // a split found that the leaf takes the key as a long one only
  Modification* modification = nullptr;  // of kModify, which decides what becomes of the key

  // The result, once the write was applied and the leaf was written. Also a write that is refused
  // may have removed an entry, which had expired.
  OperationClass kind = OperationClass::kUpdate;
  Status status = Ok();  // NotFound, AlreadyExists: nothing was changed
  std::optional<BlockRef> replaced;

  void SetKey(KeyView key, const LeafGeometry& geometry) {
    hash = KeyHash(key);
    unit = geometry.GroupOf(hash);
    entry.key = key;
  }
  // A modification says only when it is done.
  bool MayExpire() const { return mode == WriteMode::kModify || expiry.is_stored(); }
  // Whether it was applied, and ended as `code` because of what the leaf has.
  static bool IsRefusal(Code code) {
    return code == Code::kNotFound || code == Code::kAlreadyExists;
  }
  // Whether it was applied, and has only noted what the leaf stores: it has to read or to write a
  // block.
  bool is_noted() const {
    return modification != nullptr && modification->state() == Modification::State::kNoted;
  }
  // Whether it was that, or was planned for something else than the leaf stores: it begins anew.
  bool is_undecided() const {
    const bool is_outdated =
        modification != nullptr && modification->state() == Modification::State::kOutdated;
    return is_noted() || is_outdated;
  }
  // Whether it was applied to an image, and changes nothing there.
  bool HasChangedNothing() const {
    return !status || (modification != nullptr && !modification->is_applied());
  }
};

// What writes have done.
struct WriteTally {
  uint64_t inserted = 0;
  uint64_t updated = 0;
  uint64_t deleted = 0;
  // Inserts of keys that are there, updates and deletes of absent ones, kept keys.
  uint64_t refused = 0;

  WriteTally& operator+=(const WriteTally& other) {
    inserted += other.inserted;
    updated += other.updated;
    deleted += other.deleted;
    refused += other.refused;
    return *this;
  }
  // `write` was applied, and its leaf is written.
  void Add(const LeafWrite& write) {
    if (write.HasChangedNothing()) {
      ++refused;
    } else if (write.kind == OperationClass::kDelete) {
      ++deleted;
    } else {
      ++(write.kind == OperationClass::kInsert ? inserted : updated);
    }
  }
};

class LeafEditor {
 public:
  enum class Applied : uint8_t {
    kChanged,
    kRefused,  // `status` says why; nothing to write
    kUnread,   // the overflow group must be known first
    kUnknown,  // a long key must be known first: see UnknownLongKeys
    kTooLong,  // the leaf, as it is, can take the key as a long key only
    kNoRoom,   // it fits neither into its home nor into the overflow group, or lacks the prefix
    kLater,    // not together with what was applied before (rule W3)
  };

  // `within`: as for GroupView::Parse. `clock` outlives the editor.
  LeafEditor(std::span<std::byte> image, RemotePtr leaf, const LeafGeometry& geometry,
             KeyView within, const ExpiryClock& clock)
      : image_(image), leaf_(leaf), geometry_(geometry), within_(within), clock_(&clock) {}

  // Call after the bytes of unit `number` were read under the lock. Returns false if they are not
  // valid, or not of the known units' version.
  bool Accept(uint32_t number);
  // Accepts `units`, a bit set, which were handed over with the lock.
  void AcceptHandedOver(uint32_t units);
  bool knows(uint32_t number) const { return (known_ >> number & 1) != 0; }
  uint32_t known() const { return known_; }
  // Bit set of the units changed and not written yet.
  uint32_t changed() const { return changed_; }
  // Requires: the unit is known.
  const GroupView& Unit(uint32_t number) const {
    assert(knows(number));
    return *std::launder(reinterpret_cast<const GroupView*>(&views_[number * sizeof(GroupView)]));
  }
  std::span<std::byte> bytes(uint32_t number) const {
    return image_.subspan(geometry_.unit_offset(number), geometry_.unit_bytes());
  }

  // The references to long keys that the known units have, and that are not in `long_keys`. With
  // `key`, only of those that may be this one.
  std::vector<LongRef> UnknownLongKeys(std::optional<KeyView> key) const;
  // Whether the key of `entry`, an entry of `AppendTo`, is whole.
  bool knows_key(const Entry& entry) const {
    return !entry.is_long() || LongKeyOf(entry) != nullptr;
  }
  LongKeys& long_keys() { return long_keys_; }

  // Appends the entries of all units, in the units' order. They refer to the image; their keys are
  // whole, and in `arena` where they are not in the image. Of a long key that is not known, it is
  // the first bytes.
  // Requires: all units are known.
  void AppendTo(std::vector<Entry>& entries, KeyArena& arena) const;

  // The entry of `key`, whose home group is known. `unread`: it may be in the overflow group, which
  // is unknown. `is_unsure`: the entry is that of a long key which is not known, and may be another
  // one.
  struct Found {
    std::optional<Entry> entry;  // as in the image
    uint32_t unit = 0;           // where it is
    bool unread = false;
    bool is_unsure = false;
  };
  Found Find(KeyView key, uint32_t home) const;

  // Whether unit `number`, which is known, has the entry of `key`, or one of a long key that may be
  // it.
  bool MayHave(KeyView key, uint32_t number) const { return FindIn(number, key).entry.has_value(); }

  // Whether the key of `write`, whose home group is known, is below the high fence. (It is never
  // below the low fence, which never changes: a path leads to the right leaf or too far left.)
  bool Admits(const LeafWrite& write) const { return Unit(write.unit).Admits(write.entry.key); }
  // Applies `write`, whose home group is known.
  Applied Apply(LeafWrite& write);
  // Whether `entry` counts as absent, and is to be removed.
  bool HasExpired(const Entry& entry) const;
  // When a key expires that is written now with `expiry`, and did so at `before`; 0: never.
  uint64_t TimeOf(Expiry expiry, uint64_t before) const;
  // Overwrites what is stored for the key of `entry`, whose home group is known, if that has the
  // same length and kind.
  // Returns false, and changes nothing, if not. Many such writes cost one checksum for each unit:
  // call SealOverwritten behind the last.
  bool Overwrite(const Entry& entry, uint32_t home);
  void SealOverwritten();
  // Whether entries were removed since the last write.
  bool has_removed() const { return removed_count_ != 0; }
  // Whether the leaf's hint may have to be corrected by what is known. Not if values were only
  // overwritten where the hint led to: a wrong hint is noticed by the operation that it misleads.
  bool MayCorrectHint() const {
    const bool is_in_vain = knows(geometry_.overflow_unit()) && !has_used_overflow_;
    return has_moved_ || was_misled_ || is_in_vain;
  }
  // Whether a write needed the overflow group, which the hint had not told to read.
  bool was_misled() const { return was_misled_; }
  // Whether the known units are so empty that the leaf may be worth a merge.
  bool IsSparse() const;
  // Call when the changed units are in the batch that writes them.
  void ForgetChanges() {
    changed_ = 0;
    removed_count_ = 0;
    has_moved_ = false;
  }

 private:
  static constexpr size_t kMaxRemoved = 64;

  // The key of an entry that has a long one. Null if it was not read.
  const Key* LongKeyOf(const Entry& entry) const {
    const auto found = long_keys_.find(entry.block().pointer);
    return found == long_keys_.end() ? nullptr : &found->second;
  }

  void SetView(uint32_t number, const GroupView& view) {
    std::construct_at(reinterpret_cast<GroupView*>(&views_[number * sizeof(GroupView)]), view);
  }
  // Removes `old`, the entry of the key of `write`. Returns false if that has to wait for the next
  // write of the leaf.
  bool Remove(const Found& old, LeafWrite& write);
  // The end of a write that changes nothing. `old`: what is there; if that has expired, it goes.
  Applied Refuse(const Found& old, bool has_expired, LeafWrite& write);
  // Whether a modification changes a key of which the leaf has `old`. Sets the entry.
  static bool Decide(LeafWrite& write, const std::optional<Entry>& old,
                     Modification::NeedsBlock needs_block);
  // Makes the view of unit `number` again, which was just sealed here.
  void AcceptOwn(uint32_t number);
  // As Find, in unit `number` alone.
  Found FindIn(uint32_t number, KeyView key) const;
  // Replaces, removes or adds an entry of unit `number`, which gets the flag `overflowed`. The key
  // of `entry` is whole. Returns false if it does not fit.
  bool Rewrite(uint32_t number, bool overflowed, const std::optional<Entry>& old,
               const std::optional<Entry>& entry);
  bool Add(uint32_t number, bool overflowed, const Entry& entry);

  std::span<std::byte> image_;
  RemotePtr leaf_;
  LeafGeometry geometry_;
  KeyView within_;
  const ExpiryClock* clock_;
  // A GroupView for each known unit. The others are not constructed, as there may be many.
  alignas(GroupView) std::array<std::byte, kMaxUnits * sizeof(GroupView)> views_;
  uint32_t known_ = 0;
  uint32_t changed_ = 0;
  bool has_moved_ = false;  // whether entries came, went or got another length since the last write
  bool has_used_overflow_ = false;  // whether a key was found in the overflow group
  bool was_misled_ = false;         // whether the overflow group was needed, and had not been read
  LongKeys long_keys_;
  // Hashes of keys removed since the last write. Until it, they must not be inserted again, as that
  // might be into another unit.
  std::array<uint64_t, kMaxRemoved> removed_;  // the first removed_count_
  size_t removed_count_ = 0;
};

}  // namespace gossamer
