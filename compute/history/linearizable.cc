// Linearizability of one key: Wing & Gong '93, in the just-in-time form of Lowe '17.
//
// Calls and returns are taken in the order of time. A configuration is one way in which things may stand: the key's
// value, and which of the open operations have taken effect already. An operation that returns must have taken effect
// in every configuration that survives; one that has not yet takes effect now, behind any others that are open. No
// configuration left: no order explains the results.
//
// What changes nothing (gets, refused writes) takes effect as soon as its result is right: that never rules anything
// out, so that only open writes multiply configurations.
#include <algorithm>
#include <array>
#include <unordered_set>

#include "compute/history/history.h"

namespace gossamer::history {
namespace {

constexpr size_t kMaxOpen = 64;
constexpr size_t kMaxConfigurations = 300'000;

struct Configuration {
  ValueId value = kAbsent;
  uint64_t done = 0;  // bit i: the operation in slot i has taken effect
  friend bool operator==(const Configuration&, const Configuration&) = default;
};

struct HashConfiguration {
  size_t operator()(const Configuration& configuration) const {
    uint64_t x = configuration.value * 0x9e3779b97f4a7c15 + configuration.done;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    return x ^ (x >> 31);
  }
};

using Configurations = std::unordered_set<Configuration, HashConfiguration>;

bool IsWrite(const Event& event) {
  return event.kind != OperationKind::kGet && event.kind != OperationKind::kScan &&
         event.outcome != Outcome::kRefused;
}

// Whether the operation, taking effect on `value`, would have had its result.
bool Fits(const Event& event, ValueId value) {
  switch (event.kind) {
    case OperationKind::kGet:
    case OperationKind::kScan: return value == event.value;
    case OperationKind::kPut: return true;
    case OperationKind::kInsert: return (value == kAbsent) == (event.outcome != Outcome::kRefused);
    case OperationKind::kUpdate:
    case OperationKind::kDelete: return (value != kAbsent) == (event.outcome != Outcome::kRefused);
  }
  return false;
}

class Checker {
 public:
  explicit Checker(std::span<const Event> events) : events_(events) {}

  Linearizability Run() {
    std::vector<Moment> moments;
    for (const Event& event : events_) {
      moments.push_back({event.start, false, &event});
      if (event.outcome != Outcome::kUnknown) moments.push_back({event.end, true, &event});
    }
    // At the same nanosecond: calls first, so that the two overlap.
    std::sort(moments.begin(), moments.end(), [](const Moment& a, const Moment& b) {
      return a.time != b.time ? a.time < b.time : a.is_return < b.is_return;
    });
    configurations_ = {Configuration{}};
    for (const Moment& moment : moments) {
      if (!moment.is_return) {
        if (!Open(moment.event)) return {false, std::nullopt};
        continue;
      }
      const size_t slot = SlotOf(moment.event);
      const Configurations before = configurations_;
      if (!Return(slot)) return {false, std::nullopt};
      if (configurations_.empty()) return {true, Explain(*moment.event, before)};
      open_ &= ~(uint64_t{1} << slot);
    }
    return {};
  }

 private:
  struct Moment {
    int64_t time;
    bool is_return;
    const Event* event;
  };

  bool Open(const Event* event) {
    if (~open_ == 0) return false;
    const auto slot = static_cast<size_t>(__builtin_ctzll(~open_));
    open_ |= uint64_t{1} << slot;
    slots_[slot] = event;
    return true;
  }

  size_t SlotOf(const Event* event) const {
    for (uint64_t left = open_; left != 0; left &= left - 1) {
      const auto slot = static_cast<size_t>(__builtin_ctzll(left));
      if (slots_[slot] == event) return slot;
    }
    return kMaxOpen;
  }

  // Lets everything that changes nothing take effect.
  Configuration Settle(Configuration configuration) const {
    for (uint64_t left = open_ & ~configuration.done; left != 0; left &= left - 1) {
      const auto slot = static_cast<size_t>(__builtin_ctzll(left));
      if (!IsWrite(*slots_[slot]) && Fits(*slots_[slot], configuration.value)) {
        configuration.done |= uint64_t{1} << slot;
      }
    }
    return configuration;
  }

  // The configurations in which `slot` has taken effect; it is free in them. False: too many to look at.
  bool Return(size_t slot) {
    const uint64_t bit = uint64_t{1} << slot;
    Configurations after;
    Configurations seen;
    std::vector<Configuration> stack;
    for (const Configuration& configuration : configurations_) {
      const Configuration settled = Settle(configuration);
      if (seen.insert(settled).second) stack.push_back(settled);
    }
    while (!stack.empty()) {
      const Configuration at = stack.back();
      stack.pop_back();
      if ((at.done & bit) != 0) {
        after.insert({at.value, at.done & ~bit});
        continue;
      }
      for (uint64_t left = open_ & ~at.done; left != 0; left &= left - 1) {
        const auto next = static_cast<size_t>(__builtin_ctzll(left));
        const Event& event = *slots_[next];
        if (!IsWrite(event) || !Fits(event, at.value)) continue;
        const Configuration changed =
            Settle({event.kind == OperationKind::kDelete ? kAbsent : event.value,
                    at.done | uint64_t{1} << next});
        if (seen.insert(changed).second) stack.push_back(changed);
      }
      if (seen.size() > kMaxConfigurations) return false;
    }
    configurations_ = std::move(after);
    return true;
  }

  std::string Explain(const Event& event, const Configurations& before) const {
    std::string text = "key " + std::to_string(event.key) +
                       ": no order of the operations explains " + ToString(event) +
                       "\n  the key may then have been:";
    for (const Configuration& configuration : before) {
      text +=
          configuration.value == kAbsent ? " absent" : " #" + std::to_string(configuration.value);
    }
    text += "\n  open:";
    for (uint64_t left = open_; left != 0; left &= left - 1) {
      const Event* open = slots_[static_cast<size_t>(__builtin_ctzll(left))];
      if (open != &event) text += "\n    " + ToString(*open);
    }
    // Those that ended last before it.
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

  std::span<const Event> events_;
  std::array<const Event*, kMaxOpen> slots_{};
  uint64_t open_ = 0;
  Configurations configurations_;
};

}  // namespace

Linearizability CheckLinearizable(std::span<const Event> events) { return Checker(events).Run(); }

}  // namespace gossamer::history
