// The one check of the parameters that a store is to be created with.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/status.h"
#include "proto/store_parameters.h"

namespace gossamer {

// "--FLAG=VALUE: WHY", for a value that does not do.
Error BadFlag(std::string_view flag, uint64_t value, std::string_view why);

// The parameters are wide, so that a flag with a number of any size can be passed.
// Errors: InvalidArgument; the message names the flag of `gossamer-memory` and says what to give
// instead.
Result<StoreParameters> CheckedParameters(uint32_t node_bytes, uint32_t max_key_bytes,
                                          uint32_t inline_value_bytes);

}  // namespace gossamer
