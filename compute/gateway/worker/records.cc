#include "compute/gateway/worker/records.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace gossamer::gateway {

void Record(const Batch& batch, std::chrono::nanoseconds duration, WorkerMetrics::Worker& metrics,
            SlowLog& slow_log) {
  batch.ForEachCommand([&](const Command& command, uint64_t times) {
    metrics.RecordCommands(NumberOf(command), static_cast<uint64_t>(duration.count()), times);
  });
  batch.ForEachError([&](const Command& command) { metrics.RecordError(NumberOf(command)); });
  ClientNumbers& numbers = metrics.numbers();
  batch.ForEachRefusal([&](const Command* command) {
    if (command == nullptr) {
      ++numbers.unknown_requests;
    } else {
      metrics.RecordRejected(NumberOf(*command));
    }
  });
  numbers.keys_found += batch.keys_found();
  numbers.keys_absent += batch.keys_absent();
  if (!slow_log.IsSlow(duration)) return;
  batch.ForEachLongest([&](Client& client, const std::vector<std::string_view>& words) {
    slow_log.Add(duration, words, client.entry().address(), client.entry().name());
  });
}

}  // namespace gossamer::gateway
