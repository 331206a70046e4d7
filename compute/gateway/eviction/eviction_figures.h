// EvictionFigures: what INFO, CONFIG and --admin tell of evictions. Of a gateway, whichever store
// it serves.
//
// Thread-safety: all of it by any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "common/admin/metrics.h"
#include "compute/gateway/eviction/eviction_options.h"

namespace gossamer::gateway {

struct EvictionFigures {
  explicit EvictionFigures(const EvictionOptions& given) : options(given) {}

  void AddTo(Families& families) const;
  // The field eviction of /state (docs/metrics.md).
  nlohmann::ordered_json State() const;

  const EvictionOptions options;
  std::atomic<uint64_t> limit_bytes = 0;  // 0: not known yet
  // What the store uses, as far as this gateway knows: it learns that from the memory servers now
  // and then, and adds what it writes itself.
  std::atomic<int64_t> used_bytes = 0;
  std::atomic<uint64_t> keys_in_store = 0;  // an estimate
  std::atomic<double> half_life = 0;        // KeyHeat::half_life; 0: it does not matter
  std::atomic<uint64_t> evicted_keys = 0;   // by this gateway, as are these
  std::atomic<uint64_t> evicted_bytes = 0;
  std::atomic<uint64_t> delayed_writes = 0;  // calls that evicted keys first
  std::atomic<uint64_t> failed_writes = 0;   // keys that were refused, as too few could be evicted
};

}  // namespace gossamer::gateway
