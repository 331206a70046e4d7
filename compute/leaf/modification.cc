#include "compute/leaf/modification.h"

#include "compute/rules/rules.h"

namespace gossamer {

bool Modification::Decide(const std::optional<Entry>& old, bool needs_block) {
  if (is_planned_) {
    state_ = rules::MayWritePlanned(IsNoted(old)) ? State::kApplied : State::kOutdated;
    return state_ == State::kApplied;
  }
  if (old && old->has_block()) return Note(old);
  change_ = Modify(old ? std::optional(old->stored) : std::nullopt);
  if (change_.kind == ValueModifier::Kind::kKeep) {
    state_ = State::kKept;
    return false;
  }
  const bool is_put = change_.kind == ValueModifier::Kind::kPut;
  if (is_put && (needs_block || change_.value.size() > inline_bytes_)) return Note(old);
  state_ = State::kApplied;
  return true;
}

bool Modification::Note(const std::optional<Entry>& old) {
  noted_.reset();
  if (old) noted_.emplace(Stored{old->kind, std::string(old->stored)});
  state_ = State::kNoted;
  return false;
}

bool Modification::IsNoted(const std::optional<Entry>& old) const {
  if (!old || !noted_) return !old && !noted_;
  return old->kind == noted_->kind && old->stored == noted_->bytes;
}

}  // namespace gossamer
