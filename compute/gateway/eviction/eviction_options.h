// Which keys a full store drops.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/status.h"

namespace gossamer::gateway {

enum class EvictionPolicy : uint8_t {
  kNone,  // none: writes are refused
  kTtl,   // those that expire, the soonest first
  kLru,   // any, the coldest first: see KeyHeat
};

struct EvictionOptions {
  EvictionPolicy policy = EvictionPolicy::kNone;
  uint64_t max_memory = 0;  // of the whole store; 0: that of the memory servers, less a tenth

  // The bytes that the store may use, of `heap_bytes` that its memory servers have.
  uint64_t LimitOf(uint64_t heap_bytes) const;
};

// "none", "ttl" or "lru". Errors: InvalidArgument, a sentence.
Result<EvictionPolicy> ParseEvictionPolicy(std::string_view word);
// As maxmemory-policy of Redis: "noeviction", "volatile-ttl", "allkeys-lru".
std::string_view RedisNameOf(EvictionPolicy policy);

}  // namespace gossamer::gateway
