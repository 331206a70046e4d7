#include "compute/gateway/eviction/eviction_figures.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gossamer::gateway {
namespace {

uint64_t NotNegative(const std::atomic<int64_t>& value) {
  return static_cast<uint64_t>(std::max<int64_t>(value.load(std::memory_order_relaxed), 0));
}

}  // namespace

void EvictionFigures::AddTo(Families& families) const {
  families.Counter("gossamer_evicted_keys_total", "Keys that this compute server has evicted.",
                   evicted_keys.load());
  families.Counter("gossamer_evicted_bytes_total", "About the memory of these keys.",
                   evicted_bytes.load());
  families.Counter("gossamer_eviction_delayed_writes_total",
                   "Batches of writes that waited until keys were evicted.", delayed_writes.load());
  families.Counter("gossamer_eviction_failed_writes_total",
                   "Writes that were refused although keys are evicted.", failed_writes.load());
  families.Gauge("gossamer_eviction_limit_bytes",
                 "Memory of the store beyond which keys are evicted.", limit_bytes.load());
  families.Gauge("gossamer_eviction_used_bytes",
                 "Memory of the store in use, as far as this compute server knows.",
                 NotNegative(used_bytes));
}

nlohmann::ordered_json EvictionFigures::State() const {
  return {{"policy", RedisNameOf(options.policy)}, {"limit_bytes", limit_bytes.load()},
          {"used_bytes", NotNegative(used_bytes)}, {"keys_in_store", keys_in_store.load()},
          {"half_life", half_life.load()},         {"evicted_keys", evicted_keys.load()},
          {"evicted_bytes", evicted_bytes.load()}, {"delayed_writes", delayed_writes.load()},
          {"failed_writes", failed_writes.load()}};
}

}  // namespace gossamer::gateway
