// The parameters fixed when a store is created, and the limits of this build.
#pragma once

#include <cstdint>

namespace gossamer {

// Every client and every later memory server must use the same.
struct StoreParameters {
  uint32_t node_bytes = 1024;        // a power of two, 256..4096, at most the path MTU
  uint16_t max_key_bytes = 250;      // 1..250; at most 32 in nodes of 256 B
  uint16_t inline_value_bytes = 16;  // 0..64: longer values go to value blocks

  friend bool operator==(const StoreParameters&, const StoreParameters&) = default;
};
static_assert(sizeof(StoreParameters) == 8);

inline constexpr uint32_t kMinNodeBytes = 256;
inline constexpr uint32_t kMaxNodeBytes = 4096;
inline constexpr uint32_t kMaxKeyBytes = 250;
inline constexpr uint32_t kMaxInlineValueBytes = 64;
inline constexpr uint32_t kMaxValueBytes = 1 << 20;

}  // namespace gossamer
