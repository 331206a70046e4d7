#include "compute/allocation/returned_memory.h"

#include <algorithm>
#include <utility>

#include "compute/session/control_client.h"
#include "compute/session/registration.h"

namespace gossamer {
namespace {

// Makes one range of neighbours that have the same past.
void Join(std::vector<control::Range>& ranges) {
  std::ranges::sort(ranges, {}, &control::Range::offset);
  size_t last = 0;
  for (size_t i = 1; i < ranges.size(); ++i) {
    const control::Range& range = ranges[i];
    control::Range& before = ranges[last];
    if (before.offset + before.bytes == range.offset && before.generation == range.generation &&
        before.past == range.past) {
      before.bytes += range.bytes;
    } else {
      ranges[++last] = range;
    }
  }
  if (!ranges.empty()) ranges.resize(last + 1);
}

}  // namespace

Task<ReturnOutcome> ReturnMemory(Scheduler& scheduler, ServerId server, ReturnedMemory& returns) {
  Endpoint& endpoint = scheduler.endpoint();
  ReturnOutcome outcome;
  Join(returns.ranges);
  while (!returns.ranges.empty() && outcome.carrier == 0) {
    const uint64_t carrier = endpoint.WorkingQueuePairId(server);
    if (carrier == 0) break;
    control::ReleaseRequest request;
    request.compute_id = static_cast<uint16_t>(returns.lease.compute);
    request.incarnation = returns.lease.incarnation;
    request.count = static_cast<uint16_t>(
        std::min<size_t>(returns.ranges.size(), control::ReleaseRequest::kMaxRanges));
    // From the end: what is left stays in place.
    const auto first = returns.ranges.end() - request.count;
    std::copy_n(first, request.count, request.ranges);
    returns.ranges.erase(first, returns.ranges.end());
    const Result<control::ReleaseReply> reply =
        co_await CallControl<control::ReleaseReply>(endpoint, server, request);
    outcome.is_left = outcome.is_left || !reply || reply.value().refused != 0;
    // The others would be refused, too.
    if (!reply && reply.error().code == Code::kFenced) returns.ranges.clear();
    const bool is_unknown = !reply && reply.error().code == Code::kNodeUnreachable;
    const bool is_replaced = endpoint.WorkingQueuePairId(server) != carrier &&
                             endpoint.BrokenQueuePairId(server) != carrier;
    if (is_unknown && !is_replaced) outcome.carrier = carrier;
  }
  co_return outcome;
}

Task<ReturnOutcome> ReconnectAndReturn(Scheduler& scheduler, ServerId server,
                                       ReturnedMemory& returns) {
  Endpoint& endpoint = scheduler.endpoint();
  const Scheduler::Clock::time_point asked_at = scheduler.Now();
  const Result<control::RenewReply> renewed =
      co_await CallControl<control::RenewReply>(endpoint, server, control::RenewRequest{});
  if (!renewed && renewed.error().code == Code::kNodeUnreachable) {
    if (scheduler.Now() - asked_at >= kSilentRegistration) co_return ReturnOutcome{};
    const Result<Registration> registered = co_await ReplaceAndRegister(endpoint, server);
    if (!registered) co_return ReturnOutcome{};
  }
  ReturnOutcome outcome = co_await ReturnMemory(scheduler, server, returns);
  co_return outcome;
}

}  // namespace gossamer
