#include "compute/verify/sim/recorder.h"

#include <fmt/core.h>

#include <algorithm>
#include <ostream>

namespace gossamer::simulator {
namespace {

using history::Event;
using history::kNever;
using history::OperationKind;
using history::Outcome;

// The operation under way.
std::string Doing(const Event& event) {
  std::string text(history::KindName(event.kind));
  if (event.value != history::kAbsent) text += fmt::format(" #{}", event.value);
  return fmt::format("{} [{}, -]", text, event.start);
}

}  // namespace

std::string TimeText(Endpoint::Clock::time_point time) {
  const auto ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  return fmt::format("{}.{:09} s", ns / 1'000'000'000, ns % 1'000'000'000);
}

int64_t Recorder::Tick() {
  while (!expiries_.empty() && expiries_.begin()->first <= network_.Now()) {
    const Expiry expiry = expiries_.begin()->second;
    expiries_.erase(expiries_.begin());
    expired_at_[expiry.event.seen] = ++now_;
    const Lane& writer = lanes_[expiry.lane];
    const bool is_late = writer.is_busy && writer.event.start == expiry.event.start;
    if (is_late) {
      late_.push_back(expiry);
    } else {
      EndExpiry(expiry.event, now_);
    }
  }
  return ++now_;
}

void Recorder::EndExpiry(Event event, int64_t end) {
  event.end = end;
  events_.push_back(event);
  if (trace_ != nullptr) Print(fmt::format("key {} {}", event.key, ToString(event)));
}

bool Recorder::BeganAfterExpiry(uint32_t lane, history::ValueId value) const {
  const auto expired = expired_at_.find(value);
  return expired != expired_at_.end() && expired->second < lanes_[lane].event.start;
}

void Recorder::Expires(uint32_t lane, history::ValueId value, Endpoint::Clock::time_point at) {
  const Lane& by = lanes_[lane];
  if (by.is_dead) return;
  Event expiry;
  expiry.kind = OperationKind::kExpire;
  expiry.seen = value;
  expiry.start = by.event.start;
  expiry.end = kNever;
  expiry.key = by.event.key;
  expiry.client = static_cast<uint16_t>(by.client);
  expiries_.emplace(at, Expiry{lane, expiry});
  Fold(static_cast<uint64_t>(at.time_since_epoch().count()));
}

void Recorder::EndExpiries() {
  for (const auto& [at, expiry] : expiries_) EndExpiry(expiry.event, kNever);
  for (const Expiry& expiry : late_) EndExpiry(expiry.event, kNever);
  expiries_.clear();
  late_.clear();
}

uint32_t Recorder::AddLane(uint32_t client, uint32_t session, uint32_t coroutine) {
  Lane lane;
  lane.client = client;
  lane.session = session;
  lane.coroutine = coroutine;
  lanes_.push_back(lane);
  return static_cast<uint32_t>(lanes_.size() - 1);
}

void Recorder::Fold(uint64_t word) { hash_ = SplitMix64::Mix(hash_ * 31 + word); }

std::string Recorder::Name(const Lane& lane) const {
  return fmt::format("{}.{}.{} key {} ", lane.client, lane.session, lane.coroutine, lane.event.key);
}

void Recorder::Print(const std::string& text) {
  *trace_ << TimeText(network_.Now()) << "  " << text << '\n';
}

void Recorder::Note(const std::string& text) {
  for (const char c : text) Fold(static_cast<unsigned char>(c));
  if (trace_ != nullptr) Print(text);
}

void Recorder::Begin(uint32_t lane, OperationKind kind, uint32_t key, history::ValueId value) {
  Lane& at = lanes_[lane];
  at.is_busy = true;
  at.since = network_.Now();
  at.event = {value, Tick(),           kNever, key, static_cast<uint16_t>(at.client),
              kind,  Outcome::kUnknown};
  Fold(lane);
  Fold(uint64_t{key} << 8 | static_cast<uint64_t>(kind));
  Fold(static_cast<uint64_t>(at.since.time_since_epoch().count()));
  if (trace_ != nullptr) Print("begin " + Name(at) + Doing(at.event));
}

void Recorder::Modifies(uint32_t lane, history::ValueId seen, history::ValueId value) {
  Lane& at = lanes_[lane];
  if (at.is_dead) return;
  at.event.seen = seen;
  at.event.value = value;
  Fold(lane);
  Fold(seen);
  Fold(value);
  if (trace_ != nullptr) Print("apply " + Name(at) + ToString(at.event));
}

void Recorder::End(uint32_t lane, Outcome outcome, history::ValueId value) {
  Lane& at = lanes_[lane];
  at.is_busy = false;
  if (at.is_dead) return;
  at.event.outcome = outcome;
  at.event.value = value;
  at.event.end = outcome == Outcome::kUnknown ? kNever : Tick();
  events_.push_back(at.event);
  std::erase_if(late_, [&](const Expiry& late) {
    if (late.lane != lane) return false;
    EndExpiry(late.event, outcome == Outcome::kUnknown ? kNever : Tick());
    return true;
  });
  ++ended_;
  Fold(lane);
  Fold(value);
  Fold(static_cast<uint64_t>(network_.Now().time_since_epoch().count()));
  if (trace_ != nullptr) Print("end   " + Name(at) + ToString(at.event));
}

void Recorder::EndWithoutEffect(uint32_t lane, const Error& error) {
  Lane& at = lanes_[lane];
  at.is_busy = false;
  if (at.is_dead) return;
  ++ended_;
  Fold(lane);
  Fold(static_cast<uint64_t>(error.code));
  if (trace_ != nullptr) Print("fail  " + Name(at) + Doing(at.event) + ": " + error.ToString());
}

int64_t Recorder::Row(uint32_t lane, uint32_t key, history::ValueId value) {
  const Lane& at = lanes_[lane];
  if (at.is_dead) return now_;
  Fold(key);
  Fold(value);
  if (trace_ != nullptr) {
    Print(fmt::format("row   {}returns key {} #{}", Name(at), key, value));
  }
  return Tick();
}

std::optional<std::string> Recorder::EndScan(uint32_t lane, history::Scan& scan) {
  Lane& at = lanes_[lane];
  at.is_busy = false;
  if (at.is_dead) return std::nullopt;
  scan.client = static_cast<uint16_t>(at.client);
  scan.start = at.event.start;
  scan.end = Tick();
  ++ended_;
  Fold(lane);
  Fold(scan.rows.size());
  if (trace_ != nullptr) Print("end   " + Name(at) + ToString(at.event));
  return ExpandScan(scan, events_);
}

bool Recorder::IsBusy(uint32_t client) const {
  return std::ranges::any_of(
      lanes_, [client](const Lane& lane) { return lane.client == client && lane.is_busy; });
}

void Recorder::Kill(uint32_t client) {
  for (Lane& lane : lanes_) {
    if (lane.client != client || lane.is_dead) continue;
    lane.is_dead = true;
    if (lane.is_busy && IsChange(lane.event)) events_.push_back(lane.event);
  }
}

void Recorder::MayLoseAll(uint32_t keys) {
  const int64_t now = Tick();
  const auto may_lose = [this, now](uint32_t key) {
    losses_.push_back(events_.size());
    events_.push_back(
        {history::kAbsent, now, kNever, key, 0, OperationKind::kErase, Outcome::kUnknown});
  };
  for (uint32_t key = 0; key < keys; ++key) may_lose(key);
  // Their blocks may be gone, though the leaf comes to lead there later.
  for (const Lane& lane : lanes_) {
    if (lane.is_busy && !lane.is_dead && IsChange(lane.event)) may_lose(lane.event.key);
  }
}

void Recorder::EndLosses(size_t first) {
  const int64_t now = Tick();
  for (size_t i = 0; i < first; ++i) {
    int64_t& end = events_[losses_[i]].end;
    end = std::min(end, now);
  }
}

std::string Recorder::UnderWay() const {
  std::vector<const Lane*> busy;
  for (const Lane& lane : lanes_) {
    if (lane.is_busy) busy.push_back(&lane);
  }
  std::stable_sort(busy.begin(), busy.end(),
                   [](const Lane* a, const Lane* b) { return a->since < b->since; });
  constexpr size_t kTold = 12;
  std::string text = fmt::format("{} operations under way:", busy.size());
  if (busy.size() > kTold) busy.resize(kTold);
  for (const Lane* lane : busy) {
    text += "\n  since " + TimeText(lane->since) + (lane->is_dead ? " (killed) " : " ") +
            Name(*lane) + Doing(lane->event);
  }
  return text;
}

}  // namespace gossamer::simulator
