// What cannot work of the options of a gateway: found before anything is opened.
//
// Thread-safety: no shared state. Errors: InvalidArgument, a sentence that begins with the flag of
// gossamer-compute: "--threads: give 1 to 256".
#pragma once

#include "common/status.h"
#include "compute/gateway/commands/gateway_options.h"

namespace gossamer::gateway {

// Of the addresses: what is none, what is given twice, and what other machines may reach without a
// password.
Status CheckAddresses(const GatewayOptions& options);
// Of all that is a number.
Status CheckNumbers(const GatewayOptions& options);

}  // namespace gossamer::gateway
