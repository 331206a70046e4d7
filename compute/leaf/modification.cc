#include "compute/leaf/modification.h"

#include "compute/rules/rules.h"

namespace gossamer {

bool Modification::Decide(const std::optional<Entry>& old, NeedsBlock needs_block) {
  using Kind = ValueModifier::Kind;
  if (is_planned_ && change_.kind == Kind::kKeep) return false;
  if (is_planned_) {
    state_ = rules::MayWritePlanned(IsNoted(old)) ? State::kApplied : State::kOutdated;
    return state_ == State::kApplied;
  }
  must_store_ = false;
  const bool has_block = old && old->has_block();
  if (has_block && modifier_.wants_value()) return Note(old);
  std::optional<std::string_view> value;
  if (old) value = has_block ? std::string_view() : old->stored;
  change_ = Modify(value, old ? old->expires_at : 0);
  if (change_.kind == Kind::kKeep) {
    state_ = State::kKept;
    return false;
  }
  const bool keeps_lasting = change_.expiry.keeps() && !(old && old->expires());
  const bool is_lasting = !change_.expiry.is_stored() || keeps_lasting;
  const bool needs_own = is_lasting ? needs_block.lasting : needs_block.expiring;
  const bool is_put = change_.kind == Kind::kPut;
  if (is_put && (needs_own || change_.value.size() > inline_bytes_)) return Note(old);
  must_store_ = change_.kind == Kind::kTouch && needs_own && !old->is_long();
  if (must_store_) return Note(old);
  state_ = State::kApplied;
  return true;
}

bool Modification::Note(const std::optional<Entry>& old) {
  noted_.reset();
  if (old) noted_.emplace(Stored{old->kind, std::string(old->stored), old->expires_at});
  state_ = State::kNoted;
  return false;
}

bool Modification::IsNoted(const std::optional<Entry>& old) const {
  if (!old || !noted_) return !old && !noted_;
  return old->kind == noted_->kind && old->stored == noted_->bytes &&
         old->expires_at == noted_->expires_at;
}

}  // namespace gossamer
