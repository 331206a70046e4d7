#include "common/checked_parameters.h"

#include <fmt/core.h>

#include <bit>
#include <string_view>

#include "proto/leaf_geometry.h"

namespace gossamer {

Error BadFlag(std::string_view flag, uint64_t value, std::string_view why) {
  return MakeError(Code::kInvalidArgument, fmt::format("--{}={}: {}", flag, value, why));
}

Result<StoreParameters> CheckedParameters(uint32_t node_bytes, uint32_t max_key_bytes,
                                          uint32_t inline_value_bytes) {
  if (!std::has_single_bit(node_bytes) || node_bytes < kMinNodeBytes ||
      node_bytes > kMaxNodeBytes) {
    return BadFlag("node_bytes", node_bytes, "give a power of two between 256 and 4096");
  }
  if (max_key_bytes < 1 || max_key_bytes > kMaxKeyBytes) {
    return BadFlag("max_key_bytes", max_key_bytes, fmt::format("give 1 to {}", kMaxKeyBytes));
  }
  if (inline_value_bytes > kMaxInlineValueBytes) {
    return BadFlag("inline_value_bytes", inline_value_bytes,
                   "give 0 to 64; longer values are stored outside the nodes");
  }
  const StoreParameters parameters{node_bytes, static_cast<uint16_t>(max_key_bytes),
                                   static_cast<uint16_t>(inline_value_bytes)};
  if (!IsStorable(parameters)) {
    return BadFlag(
        "node_bytes", node_bytes,
        fmt::format("nodes of this size cannot hold keys of {} bytes with values of {} bytes; give "
                    "larger --node_bytes, or smaller --inline_value_bytes or --max_key_bytes",
                    max_key_bytes, inline_value_bytes));
  }
  return parameters;
}

}  // namespace gossamer
