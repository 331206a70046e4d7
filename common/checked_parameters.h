// The one check of the parameters that a store is to be created with.
#pragma once

#include <cstdint>

#include "common/status.h"
#include "proto/store_parameters.h"

namespace gossamer {

// The parameters are wide, so that a flag with a number of any size can be passed.
// Errors: InvalidArgument; the message names the flag of `gossamer-memory` and says what to give
// instead.
Result<StoreParameters> CheckedParameters(uint32_t node_bytes, uint32_t max_key_bytes,
                                          uint32_t inline_value_bytes);

}  // namespace gossamer
