#include "compute/lock/lease_status.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "common/process_name.h"
#include "compute/session/control_client.h"

namespace gossamer {
namespace {

// Other callers do not ask for this long. Bounded, because the asking session may not be polled any
// more.
constexpr std::chrono::milliseconds kAnswerBound{200};
// Few leases are asked about: those of live compute servers that hold locks.
constexpr size_t kMaxAsked = 4096;

Task<Result<control::LeaseQueryReply>> Query(Scheduler& scheduler, ServerId server, Lease lease) {
  control::LeaseQueryRequest query;
  query.compute_id = static_cast<uint16_t>(lease.compute);
  query.incarnation = lease.incarnation;
  co_return co_await CallControl<control::LeaseQueryReply>(scheduler.endpoint(), server, query);
}

}  // namespace

LeaseStatus::Name LeaseStatus::NameOf(ServerId server, Lease lease) {
  return static_cast<Name>(uint64_t{1} << 56 | uint64_t{ToInteger(server)} << 40 |
                           uint64_t{static_cast<uint16_t>(lease.compute)} << 24 |
                           lease.incarnation);
}

size_t LeaseStatus::SetOf(Name name) {
  return (static_cast<uint64_t>(name) * 0x9e3779b97f4a7c15u) >> 56;
}

bool LeaseStatus::HasEnded(ServerId server, Lease lease) const {
  static_assert(kSets == 256, "SetOf takes 8 bits");
  const Name name = NameOf(server, lease);
  const Set& set = ended_[SetOf(name)];
  return std::ranges::any_of(
      set, [name](const auto& entry) { return entry.load(std::memory_order_relaxed) == name; });
}

Task<Result<LeaseState>> LeaseStatus::Ask(Scheduler& scheduler, ServerId server, Lease lease) {
  if (HasEnded(server, lease)) co_return LeaseState::kEnded;
  const Name name = NameOf(server, lease);
  if (!StartAsking(name, scheduler.Now())) co_return LeaseState::kInForce;
  const Result<LeaseState> state = co_await AskAboutLease(scheduler, server, lease);
  EndAsking(name, state && state.value() == LeaseState::kEnded, scheduler.Now());
  co_return state;
}

bool LeaseStatus::StartAsking(Name name, Clock::time_point now) {
  const std::lock_guard guard(mutex_);
  if (ask_again_at_.size() > kMaxAsked) {
    std::erase_if(ask_again_at_, [now](const auto& asked) { return asked.second <= now; });
  }
  Clock::time_point& again_at = ask_again_at_.try_emplace(name, now).first->second;
  if (now < again_at) return false;
  again_at = now + kAnswerBound;
  return true;
}

void LeaseStatus::EndAsking(Name name, bool has_ended, Clock::time_point now) {
  const std::lock_guard guard(mutex_);
  if (has_ended) {
    ask_again_at_.erase(name);
    Remember(name);
  } else {
    ask_again_at_[name] = now + kAskInterval;
  }
}

// Called with mutex_ held: one writer at a time.
void LeaseStatus::Remember(Name name) {
  Set& set = ended_[SetOf(name)];
  for (auto& entry : set) {
    if (entry.load(std::memory_order_relaxed) == name) return;
  }
  // The newest first; the oldest goes.
  for (size_t i = kWays - 1; i > 0; --i) {
    set[i].store(set[i - 1].load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  set[0].store(name, std::memory_order_relaxed);
}

Task<Result<LeaseState>> AskAboutLease(Scheduler& scheduler, ServerId server, Lease lease) {
  const Result<control::LeaseQueryReply> reply = co_await Query(scheduler, server, lease);
  if (!reply) co_return reply.error();
  co_return reply.value().in_force == 0 ? LeaseState::kEnded : LeaseState::kInForce;
}

Task<std::string> DescribeHolder(Scheduler& scheduler, ServerId server, Lease lease) {
  std::string text = fmt::format("compute server {} (incarnation {})",
                                 static_cast<uint16_t>(lease.compute), lease.incarnation);
  const Result<control::LeaseQueryReply> reply = co_await Query(scheduler, server, lease);
  if (reply && reply.value().in_force != 0) text += ", " + Describe(reply.value().holder);
  co_return text;
}

}  // namespace gossamer
