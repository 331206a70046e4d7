// Modification: a read-modify-write on its way.
//
// The holder of the leaf's lock modifies a value that is inside the leaf. Of a value in a block, it
// only notes the reference: the caller reads the block, and then writes if the leaf still stores
// what was noted. A reference to a block is never the same again, since blocks are written once and
// their pointers have generations.
//
// Thread-safety: none. The lock of the leaf hands it from one thread to the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "gossamer/modifier.h"
#include "proto/entry.h"

namespace gossamer {

static_assert(Expiry::FromStored(kComposite).is_composite() && Expiry::kLatestMs == kLatestExpiry);

class Modification {
 public:
  enum class State : uint8_t {
    kOpen,      // no leaf was looked at yet
    kApplied,   // the write was applied to the leaf
    kKept,      // nothing is to be written
    kNoted,     // the leaf cannot be changed yet: see `noted`
    kOutdated,  // the leaf stores something else than was noted
    kLost,      // the write that was planned was not done, and cannot begin again
  };
  // What a leaf stores for a key.
  struct Stored {
    Entry::Kind kind = Entry::Kind::kInline;
    std::string bytes;
    uint64_t expires_at = 0;
  };
  // Whether a leaf takes the key as a long one only, as a key that never expires, or that does.
  struct NeedsBlock {
    bool lasting = false;
    bool expiring = false;
  };

  // `inline_bytes`: the longest value that a leaf takes.
  Modification(ValueModifier& modifier, size_t inline_bytes)
      : modifier_(modifier), inline_bytes_(inline_bytes) {}

  ValueModifier& modifier() const { return modifier_; }
  State state() const { return state_; }
  bool is_applied() const { return state_ == State::kApplied; }
  // nullopt: the key was absent.
  const std::optional<Stored>& noted() const { return noted_; }
  // Whether what to write for `noted` is known: `change` says that.
  bool is_planned() const { return is_planned_; }
  const ValueModifier::Change& change() const { return change_; }
  // Whether a reader has found that nothing is to be written.
  bool is_kept_by_plan() const { return is_planned_ && state_ == State::kKept; }

  // What was noted is of an earlier lease than the next try of the write would be: its pointer
  // tells nothing then (rule R9).
  void Lose() { state_ = State::kLost; }
  // A reader has found `stored`; nullopt: the key is absent. Plan follows.
  void Note(std::optional<Stored> stored) { noted_ = std::move(stored); }
  // Forgets what was noted.
  void Restart() {
    is_planned_ = false;
    state_ = State::kOpen;
  }
  // Plans the write for what was noted. `value` is that of the key, and lives until the write has
  // ended.
  void Plan(std::optional<std::string_view> value) {
    change_ = Modify(value, noted_ ? noted_->expires_at : 0);
    is_planned_ = true;
    using Kind = ValueModifier::Kind;
    if (change_.kind == Kind::kTouch && must_store_) {
      change_ = {Kind::kPut, *value, change_.expiry};
    }
    if (change_.kind == Kind::kKeep) state_ = State::kKept;
  }

  // Decides what is written to a leaf that has `old`. Sets `change` and `state`. Returns whether
  // anything is.
  bool Decide(const std::optional<Entry>& old, NeedsBlock needs_block);

 private:
  ValueModifier::Change Modify(std::optional<std::string_view> value, uint64_t expires_at) {
    using Kind = ValueModifier::Kind;
    const Expiry before = Expiry::FromStored(expires_at);
    ValueModifier::Change change = modifier_.Modify(value, before);
    if (change.kind == Kind::kTouch) {
      if (change.expiry.keeps()) change.kind = Kind::kKeep;
      if (before.is_composite()) change.expiry = change.expiry.OfComposite();
    }
    const bool is_vain = !value && (change.kind == Kind::kDelete || change.kind == Kind::kTouch);
    if (is_vain) change.kind = Kind::kKeep;
    return change;
  }
  // Returns false: nothing is written yet.
  bool Note(const std::optional<Entry>& old);
  bool IsNoted(const std::optional<Entry>& old) const;

  ValueModifier& modifier_;
  const size_t inline_bytes_;
  State state_ = State::kOpen;
  bool is_planned_ = false;
  bool must_store_ = false;  // the leaf cannot keep the value where it is
  std::optional<Stored> noted_;
  ValueModifier::Change change_;
};

}  // namespace gossamer
