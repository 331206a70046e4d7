// The flags about the fabric, alike in every program that reaches memory servers or is one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "gossamer/rdma_options.h"

namespace gossamer {

struct FabricFlags {
  std::string fabric;  // "shm" or "verbs"
  RdmaOptions rdma;
  uint32_t connection_timeout_ms = 0;
};

// Errors: InvalidArgument; the message names the flag and says what to give instead.
Result<FabricFlags> ReadFabricFlags();

// Their names, without dashes.
std::span<const std::string_view> FabricFlagNames();

// Flags that make another program use RDMA by `rdma`; none for what is left out.
std::vector<std::string> FlagsFor(const RdmaOptions& rdma);

}  // namespace gossamer
