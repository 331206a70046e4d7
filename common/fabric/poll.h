// For callers without coroutines.
#pragma once

#include "common/fabric/endpoint.h"

namespace gossamer {

// Polls until what was posted with `completion` has ended. The fabric bounds the wait.
void PollUntilComplete(Endpoint& endpoint, const Completion& completion);

}  // namespace gossamer
