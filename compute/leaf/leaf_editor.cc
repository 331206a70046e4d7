#include "compute/leaf/leaf_editor.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include "common/set_bits.h"
#include "compute/rules/rules.h"

namespace gossamer {
namespace {

// Most units hold few entries, and an array for the maximum takes time to construct.
constexpr uint32_t kFew = 16;

// Writes to `out` the unit `view` with `old` removed, which was found in it, and, if given, `entry`
// added in its place; without `old`, at the end. Returns false if that does not fit.
template <size_t kCapacity>
bool RewriteWithin(std::span<std::byte> out, RemotePtr leaf, uint32_t number, const GroupView& view,
                   bool overflowed, const std::optional<Entry>& old,
                   const std::optional<Entry>& entry) {
  std::array<Entry, kCapacity> entries;
  size_t count = 0;
  const auto place = [&] {
    entries[count++] = {entry->StoredKey(view.prefix().size()), entry->stored, entry->kind,
                        entry->expires_at};
  };
  view.ForEach([&](const Entry& one) {
    const bool is_old = old && one.stored.data() == old->stored.data();
    if (!is_old) {
      entries[count++] = one;
    } else if (entry) {
      place();
    }
  });
  if (entry && !old) place();
  return EncodeGroup(out, leaf, number, view.version(), overflowed, view.bounds(),
                     {entries.data(), count}, Keys::kWithoutPrefix);
}

}  // namespace

bool LeafEditor::Accept(uint32_t number) {
  known_ &= ~(1u << number);
  const GroupView* const view = GroupView::ParseAt(&views_[number * sizeof(GroupView)],
                                                   bytes(number), leaf_, number, within_);
  if (view == nullptr) return false;
  if (known_ != 0) {
    const GroupView& other = Unit(static_cast<uint32_t>(std::countr_zero(known_)));
    if (other.version() != view->version() || !other.HasBoundsOf(*view)) return false;
  }
  known_ |= 1u << number;
  return true;
}

void LeafEditor::AcceptHandedOver(uint32_t units) {
  for (const uint32_t number : SetBits(units)) Accept(number);
}

void LeafEditor::AppendTo(std::vector<Entry>& entries, KeyArena& arena) const {
  assert(known_ == (uint32_t{1} << geometry_.units()) - 1 ||
         known_ == (uint32_t{2} << geometry_.units()) - 1);
  size_t count = entries.size();
  for (uint32_t number = 0; number < geometry_.units(); ++number) count += Unit(number).count();
  auto next = entries.size();
  entries.resize(count);
  for (uint32_t number = 0; number < geometry_.units(); ++number) {
    const KeyView prefix = Unit(number).prefix();
    Unit(number).ForEach([&](const Entry& entry) {
      const Key* const whole = entry.is_long() ? LongKeyOf(entry) : nullptr;
      entries[next++] = {whole == nullptr ? arena.Join(prefix, entry.key) : arena.Copy(*whole),
                         entry.stored, entry.kind, entry.expires_at};
    });
  }
}

std::vector<LongRef> LeafEditor::UnknownLongKeys(std::optional<KeyView> key) const {
  std::vector<LongRef> refs;
  const auto add = [&](const Entry& entry) {
    if (entry.is_long() && !knows_key(entry)) refs.push_back(entry.long_ref());
    return false;
  };
  for (const uint32_t number : SetBits(known_)) {
    const GroupView& unit = Unit(number);
    if (!unit.may_have_long()) continue;
    if (key) {
      unit.FindLong(*key, KeyHash(*key), add);
    } else {
      unit.ForEach(add);
    }
  }
  return refs;
}

bool LeafEditor::IsSparse() const {
  size_t bytes = 0;
  size_t units = 0;
  for (const uint32_t number : SetBits(known_)) {
    if (number == geometry_.overflow_unit()) continue;
    bytes += Unit(number).entry_bytes();
    ++units;
  }
  return bytes * kSparseFraction <= units * geometry_.unit_bytes();
}

LeafEditor::Found LeafEditor::Find(KeyView key, uint32_t home) const {
  Found found = FindIn(home, key);
  if (!found.entry && Unit(home).overflowed() && Unit(home).HasPrefix(key)) {
    if (knows(geometry_.overflow_unit())) {
      found = FindIn(geometry_.overflow_unit(), key);
    } else {
      found.unread = true;
    }
  }
  return found;
}

LeafEditor::Found LeafEditor::FindIn(uint32_t number, KeyView key) const {
  const GroupView& unit = Unit(number);
  // In place: to copy an entry just made stalls on store forwarding.
  Found found{.entry = unit.Find(key), .unit = number};
  if (!found.entry && key.size() > geometry_.max_suffix_bytes(true)) {
    // Different keys may have one hash.
    found.entry = unit.FindLong(key, KeyHash(key), [&](const Entry& entry) {
      const Key* const whole = LongKeyOf(entry);
      found.is_unsure = whole == nullptr;
      return rules::IsTheKey(whole == nullptr || whole->view() == key);
    });
  }
  return found;
}

bool LeafEditor::HasExpired(const Entry& entry) const { return clock_->MayHaveExpired(entry); }

uint64_t LeafEditor::TimeOf(Expiry expiry, uint64_t before) const {
  if (expiry.keeps() && rules::LosesTime()) return 0;
  return expiry.Resolve([this] { return clock_->LatestMs(); }, before);
}

LeafEditor::Applied LeafEditor::Apply(LeafWrite& write) {
  const uint32_t overflow = geometry_.overflow_unit();
  const KeyView key = write.entry.key;
  const Found old = Find(key, write.unit);
  if (old.unread) {
    was_misled_ = true;
    return Applied::kUnread;
  }
  if (old.is_unsure) return Applied::kUnknown;
  if (old.entry && old.unit == overflow) has_used_overflow_ = true;
  const bool has_expired = old.entry && HasExpired(*old.entry);
  const bool is_there = old.entry && !has_expired;
  // A key without the prefix of the leaf's own needs a shorter one, with which the leaf is arranged
  // anew.
  const bool has_prefix = Unit(write.unit).HasPrefix(key);
  const auto is_too_long = [&](bool expires) {
    const size_t longest = geometry_.max_suffix_bytes(expires);
    return !write.entry.is_long() && key.size() > longest &&
           (write.is_too_long || !has_prefix ||
            key.size() > Unit(write.unit).bounds().LongestKey(longest));
  };
  WriteMode mode = write.mode;
  Expiry expiry = write.expiry;
  bool is_touch = false;
  if (mode == WriteMode::kModify) {
    if (!Decide(write, is_there ? old.entry : std::nullopt,
                {is_too_long(false), is_too_long(true)})) {
      return Refuse(old, has_expired, write);
    }
    const ValueModifier::Change& change = write.modification->change();
    expiry = change.expiry;
    is_touch = change.kind == ValueModifier::Kind::kTouch;
    mode = change.kind == ValueModifier::Kind::kDelete ? WriteMode::kDelete : WriteMode::kPut;
    if (is_touch) {
      write.entry.stored = old.entry->stored;
      write.entry.kind = old.entry->kind;
    }
  }
  if (mode == WriteMode::kExpire) {
    if (!old.entry || !rules::MayExpire(has_expired)) {
      write.status = MakeError(Code::kNotFound);
      return Applied::kRefused;
    }
  } else if (is_there ? mode == WriteMode::kInsert
                      : mode == WriteMode::kUpdate || mode == WriteMode::kDelete) {
    write.status = MakeError(is_there ? Code::kAlreadyExists : Code::kNotFound);
    return Refuse(old, has_expired, write);
  }
  if (Removes(mode)) {
    if (!Remove(old, write)) return Applied::kLater;
    write.kind = OperationClass::kDelete;
    if (!write.status) write.status = Ok();
    return Applied::kChanged;
  }

  // Before it is overwritten.
  const std::optional<BlockRef> replaced = old.entry && old.entry->has_block() && !is_touch
                                               ? std::optional(old.entry->block())
                                               : std::nullopt;
  write.entry.expires_at = TimeOf(expiry, is_there ? old.entry->expires_at : 0);
  if (is_too_long(write.entry.expires())) return Applied::kTooLong;
  if (old.entry && HaveOneForm(*old.entry, write.entry)) {
    OverwriteStored(bytes(old.unit), leaf_, old.unit, within_, *old.entry, write.entry);
    changed_ |= 1u << old.unit;
  } else if (old.entry) {
    if (!Rewrite(old.unit, Unit(old.unit).overflowed(), old.entry, write.entry)) {
      return Applied::kNoRoom;
    }
  } else {
    const auto removed = removed_.begin() + static_cast<ptrdiff_t>(removed_count_);
    const bool was_removed = std::find(removed_.begin(), removed, write.hash) != removed;
    if (!rules::MayAdd(was_removed)) return Applied::kLater;
    if (!has_prefix) return Applied::kNoRoom;
    const bool overflowed = Unit(write.unit).overflowed();
    if (!Add(write.unit, overflowed, write.entry)) {
      if (!knows(overflow)) return Applied::kUnread;
      if (!Add(overflow, false, write.entry)) return Applied::kNoRoom;
      if (!overflowed) {
        MarkOverflowed(bytes(write.unit), leaf_, write.unit, Unit(write.unit));
        AcceptOwn(write.unit);
      }
    }
  }
  if (mode == WriteMode::kPut) {
    write.kind = is_there ? OperationClass::kUpdate : OperationClass::kInsert;
  }
  if (!write.status) write.status = Ok();
  write.replaced = replaced;
  return Applied::kChanged;
}

bool LeafEditor::Remove(const Found& old, LeafWrite& write) {
  if (removed_count_ == kMaxRemoved) return false;
  const std::optional<BlockRef> block =
      old.entry->has_block() ? std::optional(old.entry->block()) : std::nullopt;
  Rewrite(old.unit, Unit(old.unit).overflowed(), old.entry, std::nullopt);  // Less always fits.
  removed_[removed_count_++] = write.hash;
  write.replaced = block;
  return true;
}

LeafEditor::Applied LeafEditor::Refuse(const Found& old, bool has_expired, LeafWrite& write) {
  // Only what is noted for a plan decides nothing yet.
  const bool must_go = has_expired && !write.is_noted();
  if (must_go && !Remove(old, write)) return Applied::kLater;
  return Applied::kRefused;
}

bool LeafEditor::Decide(LeafWrite& write, const std::optional<Entry>& old,
                        Modification::NeedsBlock needs_block) {
  Modification& modification = *write.modification;
  write.replaced.reset();
  if (!modification.Decide(old, needs_block)) return false;
  // A planned value may be in a block, of which the entry tells already.
  const ValueModifier::Change& change = modification.change();
  if (!modification.is_planned()) write.entry.stored = change.value;
  return true;
}

void LeafEditor::AcceptOwn(uint32_t number) {
  SetView(number, GroupView::Trust(bytes(number), within_));
  changed_ |= 1u << number;
  has_moved_ = true;
}

bool LeafEditor::Rewrite(uint32_t number, bool overflowed, const std::optional<Entry>& old,
                         const std::optional<Entry>& entry) {
  std::array<std::byte, kUnitSlotBytes> rewritten;
  const std::span<std::byte> out(rewritten.data(), geometry_.unit_bytes());
  const GroupView& unit = Unit(number);
  const bool fits = unit.count() < kFew
                        ? RewriteWithin<kFew>(out, leaf_, number, unit, overflowed, old, entry)
                        : RewriteWithin<GroupView::kMaxEntries + 1>(out, leaf_, number, unit,
                                                                    overflowed, old, entry);
  if (!fits) return false;
  std::copy(out.begin(), out.end(), bytes(number).begin());
  AcceptOwn(number);
  return true;
}

bool LeafEditor::Add(uint32_t number, bool overflowed, const Entry& entry) {
  switch (AppendInPlace(bytes(number), leaf_, number, Unit(number), entry)) {
    case Appended::kDone: AcceptOwn(number); return true;
    case Appended::kNoRoom: return false;
    case Appended::kOtherLengths: break;
  }
  return Rewrite(number, overflowed, std::nullopt, entry);
}

bool LeafEditor::Overwrite(const Entry& entry, uint32_t home) {
  const Found old = Find(entry.key, home);
  if (!old.entry || !HaveOneForm(*old.entry, entry)) return false;
  const auto at =
      static_cast<size_t>(old.entry->stored.data() - reinterpret_cast<const char*>(image_.data()));
  OverwriteUnsealed(image_, at, entry);
  changed_ |= 1u << old.unit;
  return true;
}

void LeafEditor::SealOverwritten() {
  for (const uint32_t number : SetBits(changed_)) {
    SealUnit(bytes(number), leaf_, number, within_);
  }
}

}  // namespace gossamer
