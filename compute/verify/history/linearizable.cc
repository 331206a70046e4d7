// Linearizability of one key: Wing & Gong '93, in the just-in-time form of Lowe '17.
//
// Calls and returns are processed in time order. A configuration is a possible state: the key's
// value, and the set of open operations that have taken effect. An operation that returns must have
// taken effect in every surviving configuration. Where it has not, it takes effect now, possibly
// after other open ones. If no configuration is left, no order explains the results.
//
// Five rules limit the number of configurations:
//   - An operation that changes nothing (a get, a refused write) takes effect as soon as its result
//     is right. That never rules anything out, so only open writes multiply configurations.
//   - Of two configurations that differ only in such operations, the one with more of them done is
//     kept.
//   - A write of unknown outcome need never happen. Of two configurations that differ only in such
//     writes, the one with fewer of them done is kept.
//   - The expiry of a value that was overwritten has come: the value never comes back.
//   - Writes of unknown outcome are alike if they are of one kind and nobody reads their values.
//     What one of them explains, another one that is open explains as well. So of those that are
//     open, only the first is tried. (No modifies are alike: each fits one value.)
// So a run may have any number of unknown writes that stay open to the end. One that has an end is
// open until then: it has taken effect by that time, or never does.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/set_bits.h"
#include "compute/verify/history/history.h"

namespace gossamer::history {
namespace {

// Most configurations at one moment, if the rules do not suffice: more than 16 overlapping writes,
// say.
constexpr size_t kMaxConfigurations = 300'000;

// A set of slots.
template <size_t kWords>
struct Slots {
  static constexpr size_t kCount = kWords * 64;

  std::array<uint64_t, kWords> words{};

  static Slots Of(size_t slot) {
    Slots one;
    one.words[slot / 64] = uint64_t{1} << slot % 64;
    return one;
  }
  bool has(size_t slot) const { return (words[slot / 64] >> slot % 64 & 1) != 0; }
  bool Includes(const Slots& other) const { return other.Less(*this) == Slots(); }
  Slots And(const Slots& other) const {
    Slots both;
    for (size_t i = 0; i < kWords; ++i) both.words[i] = words[i] & other.words[i];
    return both;
  }
  Slots Or(const Slots& other) const {
    Slots either;
    for (size_t i = 0; i < kWords; ++i) either.words[i] = words[i] | other.words[i];
    return either;
  }
  Slots Less(const Slots& other) const {
    Slots rest;
    for (size_t i = 0; i < kWords; ++i) rest.words[i] = words[i] & ~other.words[i];
    return rest;
  }
  // The set without those in `others`, but for the lowest of them.
  Slots WithOneOf(const Slots& others) const {
    const Slots common = And(others);
    for (size_t i = 0; i < kWords; ++i) {
      if (common.words[i] == 0) continue;
      Slots rest = Less(common);
      rest.words[i] |= common.words[i] & (~common.words[i] + 1);
      return rest;
    }
    return *this;
  }
  // The lowest slot not in the set; kCount if all are in it.
  size_t FirstFree() const {
    for (size_t i = 0; i < kWords; ++i) {
      if (~words[i] != 0) return i * 64 + static_cast<size_t>(__builtin_ctzll(~words[i]));
    }
    return kCount;
  }
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (size_t i = 0; i < kWords; ++i) {
      for (const uint32_t bit : SetBits(words[i])) visit(i * 64 + bit);
    }
  }
  friend bool operator==(const Slots&, const Slots&) = default;
};

template <size_t kWords>
struct Configuration {
  ValueId value = kAbsent;
  Slots<kWords> done;  // the open operations that have taken effect
  friend bool operator==(const Configuration&, const Configuration&) = default;
};

template <size_t kWords>
struct HashConfiguration {
  size_t operator()(const Configuration<kWords>& configuration) const {
    uint64_t x = configuration.value;
    for (const uint64_t word : configuration.done.words) {
      x = x * 0x9e3779b97f4a7c15 + word;
      x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
      x ^= x >> 31;
    }
    return x;
  }
};

// Whether the operation would have had its result if it took effect on `value`.
bool Fits(const Event& event, ValueId value) {
  switch (event.kind) {
    case OperationKind::kGet:
    case OperationKind::kScan:
      return event.value == kSomeValue ? value != kAbsent : value == event.value;
    case OperationKind::kPut:
    case OperationKind::kErase: return true;
    case OperationKind::kModify:
    case OperationKind::kExpire: return value == event.seen;
    case OperationKind::kInsert: return (value == kAbsent) == (event.outcome != Outcome::kRefused);
    case OperationKind::kUpdate:
    case OperationKind::kDelete: return (value != kAbsent) == (event.outcome != Outcome::kRefused);
  }
  return false;
}

struct Moment {
  int64_t time;
  bool is_return;
  const Event* event;
};

std::vector<Moment> InOrder(std::span<const Event> events) {
  std::vector<Moment> moments;
  for (const Event& event : events) {
    moments.push_back({event.start, false, &event});
    if (event.end != kNever) moments.push_back({event.end, true, &event});
  }
  // At equal times calls come first, so that the two operations overlap.
  std::sort(moments.begin(), moments.end(), [](const Moment& a, const Moment& b) {
    return a.time != b.time ? a.time < b.time : a.is_return < b.is_return;
  });
  return moments;
}

size_t MostOpen(std::span<const Moment> moments) {
  size_t open = 0;
  size_t most = 0;
  for (const Moment& moment : moments) {
    open += moment.is_return ? size_t{0} - 1 : 1;
    most = std::max(most, open);
  }
  return most;
}

// The open operations of each kind.
template <size_t kWords>
struct OpenKinds {
  Slots<kWords> all;
  Slots<kWords> idle;     // change nothing
  Slots<kWords> unknown;  // writes that need not happen
};

// A set of configurations, none of which covers another.
template <size_t kWords>
class Configurations {
 public:
  using One = Configuration<kWords>;

  explicit Configurations(const OpenKinds<kWords>& open) : open_(open) {}

  // Returns false if an existing configuration covers `one`.
  bool Add(const One& one) {
    const Slots<kWords> optional = open_.idle.Or(open_.unknown);
    std::vector<One>& alike = alike_[{one.value, one.done.Less(optional)}];
    for (const One& other : alike) {
      if (Covers(other, one)) return false;
    }
    std::erase_if(alike, [&](const One& other) { return Covers(one, other); });
    alike.push_back(one);
    ++added_;
    return true;
  }
  // The number of configurations ever added.
  size_t added() const { return added_; }
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const auto& [key, alike] : alike_) {
      for (const One& one : alike) visit(one);
    }
  }

 private:
  // Whether `a` covers `b`: whatever explains the rest of the history from `b` also explains it
  // from `a`. Requires (unchecked): both have the same value, and the same writes done among the
  // writes that must happen.
  bool Covers(const One& a, const One& b) const {
    return b.done.And(open_.unknown).Includes(a.done.And(open_.unknown)) &&
           a.done.And(open_.idle).Includes(b.done.And(open_.idle));
  }

  const OpenKinds<kWords> open_;
  std::unordered_map<One, std::vector<One>, HashConfiguration<kWords>> alike_;
  size_t added_ = 0;
};

// For histories with at most kWords * 64 operations open at a time.
template <size_t kWords>
class Checker {
 public:
  explicit Checker(std::span<const Event> events) : events_(events) {
    for (const Event& event : events) {
      if (!IsChange(event)) read_.insert(event.value);
      const bool depends =
          event.kind == OperationKind::kModify || event.kind == OperationKind::kExpire;
      if (depends) read_.insert(event.seen);
    }
  }

  Linearizability Run(std::span<const Moment> moments) {
    now_ = {One{}};
    for (const Moment& moment : moments) {
      if (!moment.is_return) {
        Open(moment.event);
        continue;
      }
      const size_t slot = SlotOf(moment.event);
      const std::vector<One> before = now_;
      if (!Return(slot)) return {false, std::nullopt};
      if (now_.empty()) return {true, Explain(*moment.event, before)};
      Close(slot);
    }
    return {};
  }

 private:
  using Set = Slots<kWords>;
  using One = Configuration<kWords>;

  void Open(const Event* event) {
    const size_t slot = open_.all.FirstFree();
    slots_[slot] = event;
    open_.all = open_.all.Or(Set::Of(slot));
    if (!IsChange(*event)) open_.idle = open_.idle.Or(Set::Of(slot));
    if (event->kind == OperationKind::kExpire) {
      expiries_ = expiries_.Or(Set::Of(slot));
    } else if (IsChange(*event) && !Removes(*event)) {
      writers_.emplace(event->value, slot);
    }
    if (event->outcome != Outcome::kUnknown) return;
    open_.unknown = open_.unknown.Or(Set::Of(slot));
    const bool is_alike = event->end == kNever && event->kind != OperationKind::kModify;
    if (!is_alike || !IsUnread(*event)) return;
    Set& alike = alike_[static_cast<size_t>(event->kind)];
    alike = alike.Or(Set::Of(slot));
  }

  // Whether nobody reads what the write has left.
  bool IsUnread(const Event& write) const { return Removes(write) || !read_.contains(write.value); }
  ValueId ValueAfter(const Event& write) const {
    if (Removes(write) || expired_.contains(write.value)) return kAbsent;
    return IsUnread(write) ? kUnread : write.value;
  }

  void Close(size_t slot) {
    const Event& event = *slots_[slot];
    if (event.kind == OperationKind::kExpire) {
      expired_.insert(event.seen);
      expiries_ = expiries_.Less(Set::Of(slot));
    } else if (IsChange(event) && writers_.erase(event.value) != 0) {
      written_.insert(event.value);
    }
    open_.all = open_.all.Less(Set::Of(slot));
    open_.idle = open_.idle.Less(Set::Of(slot));
    open_.unknown = open_.unknown.Less(Set::Of(slot));
  }

  size_t SlotOf(const Event* event) const {
    size_t found = Set::kCount;
    open_.all.ForEach([&](size_t slot) { found = slots_[slot] == event ? slot : found; });
    return found;
  }

  // Lets every operation that changes nothing take effect if its result fits.
  One Settle(One one) const {
    expiries_.Less(one.done).ForEach([&](size_t slot) {
      const ValueId value = slots_[slot]->seen;
      const auto writer = writers_.find(value);
      const bool is_written =
          writer == writers_.end() ? written_.contains(value) : one.done.has(writer->second);
      if (is_written && one.value != value) one.done = one.done.Or(Set::Of(slot));
    });
    open_.idle.Less(one.done).ForEach([&](size_t slot) {
      if (Fits(*slots_[slot], one.value)) one.done = one.done.Or(Set::Of(slot));
    });
    return one;
  }

  // Keeps the configurations in which `slot` has taken effect, or need not, and frees the slot in
  // them. Returns false if there are too many to examine.
  bool Return(size_t slot) {
    const Set returns = Set::Of(slot);
    Configurations<kWords> after(open_);
    Configurations<kWords> seen(open_);
    std::vector<One> left;
    for (const One& one : now_) {
      const One settled = Settle(one);
      if (seen.Add(settled)) left.push_back(settled);
      if (open_.unknown.has(slot)) after.Add({settled.value, settled.done.Less(returns)});
    }
    const Set writes = open_.all.Less(open_.idle);
    // First in, first out: configurations with few unknown writes done are examined first.
    for (size_t next = 0; next < left.size(); ++next) {
      const One at = left[next];
      if (at.done.has(slot)) {
        after.Add({at.value, at.done.Less(returns)});
        continue;
      }
      const bool expires_in_vain =
          slots_[slot]->kind == OperationKind::kExpire && at.value != slots_[slot]->seen;
      if (expires_in_vain) after.Add({at.value, at.done});
      Set candidates = writes.Less(at.done);
      for (const Set& alike : alike_) candidates = candidates.WithOneOf(alike);
      candidates.ForEach([&](size_t other) {
        const Event& event = *slots_[other];
        if (!Fits(event, at.value)) return;
        const One changed = Settle({ValueAfter(event), at.done.Or(Set::Of(other))});
        if (seen.Add(changed)) left.push_back(changed);
      });
      if (seen.added() > kMaxConfigurations) return false;
    }
    now_.clear();
    after.ForEach([&](const One& one) { now_.push_back(one); });
    return true;
  }

  std::string Explain(const Event& event, const std::vector<One>& before) const {
    std::string text = fmt::format(
        "key {}: no order of the operations explains {}\n  the key may then have been:", event.key,
        ToString(event));
    for (const One& one : before) {
      text += one.value == kAbsent   ? " absent"
              : one.value == kUnread ? " a value that nobody read"
                                     : fmt::format(" #{}", one.value);
    }
    text += "\n  open:";
    open_.all.ForEach([&](size_t slot) {
      if (slots_[slot] != &event) text += "\n    " + ToString(*slots_[slot]);
    });
    // The operations that ended last before it.
    std::vector<const Event*> past;
    for (const Event& other : events_) {
      if (other.end < event.end && &other != &event) past.push_back(&other);
    }
    std::sort(past.begin(), past.end(),
              [](const Event* a, const Event* b) { return a->end > b->end; });
    constexpr size_t kShown = 12;
    if (past.size() > kShown) past.resize(kShown);
    text += "\n  before:";
    for (const Event* other : past) text += "\n    " + ToString(*other);
    return text;
  }

  // In place of a value that nobody reads.
  static constexpr ValueId kUnread = kSomeValue - 1;

  std::span<const Event> events_;
  std::unordered_set<ValueId> read_;             // values that somebody reads
  std::unordered_set<ValueId> expired_;          // by now
  std::unordered_set<ValueId> written_;          // by changes that have returned
  Set expiries_;                                 // open ones
  std::unordered_map<ValueId, size_t> writers_;  // open changes, by what they leave
  std::array<Set, kOperationKinds> alike_;       // open ones, by kind
  std::array<const Event*, Set::kCount> slots_{};
  OpenKinds<kWords> open_;
  std::vector<One> now_;
};

}  // namespace

Linearizability CheckLinearizable(std::span<const Event> events) {
  const std::vector<Moment> moments = InOrder(events);
  const size_t most = MostOpen(moments);
  if (most <= Slots<1>::kCount) return Checker<1>(events).Run(moments);
  if (most <= Slots<4>::kCount) return Checker<4>(events).Run(moments);
  if (most <= Slots<32>::kCount) return Checker<32>(events).Run(moments);
  return {false, std::nullopt};
}

}  // namespace gossamer::history
