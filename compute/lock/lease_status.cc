#include "compute/lock/lease_status.h"

#include <fmt/core.h>

#include <chrono>

#include "common/process.h"
#include "compute/session/control_client.h"

namespace gossamer {
namespace {

// Other callers do not ask for this long. Bounded, because the asking session may not be polled any
// more.
constexpr std::chrono::milliseconds kAnswerBound{200};
// Few leases are asked about: those of compute servers that hold locks.
constexpr size_t kMostNames = 4096;

Task<Result<control::LeaseQueryReply>> Query(Scheduler& scheduler, ServerId server, Lease lease) {
  control::LeaseQueryRequest query;
  query.compute_id = static_cast<uint16_t>(lease.compute);
  query.incarnation = lease.incarnation;
  co_return co_await CallControl<control::LeaseQueryReply>(scheduler.endpoint(), server, query);
}

}  // namespace

Task<Result<LeaseState>> LeaseStatus::Ask(Scheduler& scheduler, ServerId server, Lease lease) {
  const Name name(server, lease.compute, lease.incarnation);
  {
    const Clock::time_point now = scheduler.Now();
    const std::lock_guard guard(mutex_);
    // What may have changed by now is forgotten first.
    if (ask_again_at_.size() > kMostNames) {
      std::erase_if(ask_again_at_, [now](const auto& asked) { return asked.second <= now; });
    }
    if (ask_again_at_.size() > kMostNames) {
      std::erase_if(ask_again_at_, [](const auto& asked) { return asked.second == kNever; });
    }
    Clock::time_point& again_at = ask_again_at_.try_emplace(name, now).first->second;
    if (again_at == kNever) co_return LeaseState::kEnded;
    if (now < again_at) co_return LeaseState::kInForce;
    again_at = now + kAnswerBound;
  }
  const Result<LeaseState> state = co_await AskAboutLease(scheduler, server, lease);
  const bool has_ended = state && state.value() == LeaseState::kEnded;
  const std::lock_guard guard(mutex_);
  Clock::time_point& again_at = ask_again_at_[name];
  if (again_at != kNever) again_at = has_ended ? kNever : scheduler.Now() + kAskInterval;
  co_return state;
}

Task<Result<LeaseState>> AskAboutLease(Scheduler& scheduler, ServerId server, Lease lease) {
  BOOST_OUTCOME_CO_TRY(reply, co_await Query(scheduler, server, lease));
  co_return reply.in_force == 0 ? LeaseState::kEnded : LeaseState::kInForce;
}

Task<std::string> DescribeHolder(Scheduler& scheduler, ServerId server, Lease lease) {
  std::string text = fmt::format("compute server {} (incarnation {})",
                                 static_cast<uint16_t>(lease.compute), lease.incarnation);
  const Result<control::LeaseQueryReply> reply = co_await Query(scheduler, server, lease);
  if (reply && reply.value().in_force != 0) text += ", " + Describe(reply.value().holder);
  co_return text;
}

}  // namespace gossamer
