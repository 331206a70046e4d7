#include "compute/gateway/eviction/eviction_options.h"

#include <algorithm>

namespace gossamer::gateway {
namespace {

// Of the memory, so much is free of keys in any case: compute servers hold chunks that they have
// not used up, and values of other sizes do not fit the gaps that evicted ones leave.
constexpr uint64_t kReservedShare = 10;

}  // namespace

uint64_t EvictionOptions::LimitOf(uint64_t heap_bytes) const {
  const uint64_t most = heap_bytes - heap_bytes / kReservedShare;
  return max_memory == 0 ? most : std::min(max_memory, most);
}

Result<EvictionPolicy> ParseEvictionPolicy(std::string_view word) {
  if (word == "none") return EvictionPolicy::kNone;
  if (word == "ttl") return EvictionPolicy::kTtl;
  if (word == "lru") return EvictionPolicy::kLru;
  return MakeError(Code::kInvalidArgument, "give none, ttl or lru");
}

std::string_view RedisNameOf(EvictionPolicy policy) {
  switch (policy) {
    case EvictionPolicy::kTtl: return "volatile-ttl";
    case EvictionPolicy::kLru: return "allkeys-lru";
    default: return "noeviction";
  }
}

}  // namespace gossamer::gateway
