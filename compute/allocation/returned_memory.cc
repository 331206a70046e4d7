#include "compute/allocation/returned_memory.h"

#include <algorithm>
#include <span>
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

Task<std::optional<uint64_t>> ReturnMemory(Scheduler& scheduler, ServerId server,
                                           ReturnedMemory returns) {
  Endpoint& endpoint = scheduler.endpoint();
  Join(returns.ranges);
  for (size_t first = 0; first < returns.ranges.size();) {
    const auto rest = std::span(returns.ranges).subspan(first);
    control::ReleaseRequest request;
    request.compute_id = static_cast<uint16_t>(returns.lease.compute);
    request.incarnation = returns.lease.incarnation;
    request.count =
        static_cast<uint16_t>(std::min<size_t>(rest.size(), control::ReleaseRequest::kMaxRanges));
    std::copy_n(rest.begin(), request.count, request.ranges);
    first += request.count;
    const Result<control::ReleaseReply> reply =
        co_await CallControl<control::ReleaseReply>(endpoint, server, request);
    if (!reply && reply.error().code == Code::kNodeUnreachable) {
      const uint64_t carrier = endpoint.BrokenQueuePairId(server);  // 0: it was replaced by now
      co_return carrier == 0 ? std::nullopt : std::optional(carrier);
    }
  }
  co_return std::optional<uint64_t>();
}

Task<void> ReconnectAndReturn(Scheduler& scheduler, ServerId server, ReturnedMemory returns) {
  Endpoint& endpoint = scheduler.endpoint();
  const Scheduler::Clock::time_point asked_at = scheduler.Now();
  const Result<control::RenewReply> renewed =
      co_await CallControl<control::RenewReply>(endpoint, server, control::RenewRequest{});
  if (!renewed && renewed.error().code == Code::kNodeUnreachable) {
    if (scheduler.Now() - asked_at >= kSilentRegistration) co_return;
    const Result<Registration> registered = co_await ReplaceAndRegister(endpoint, server);
    if (!registered) co_return;
  }
  const auto carrier = co_await ReturnMemory(scheduler, server, std::move(returns));
  static_cast<void>(carrier);  // the store is closed: it acknowledges nothing more
}

}  // namespace gossamer
