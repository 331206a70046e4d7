// Checks over its fabric whether a memory server is the recorded one: connects and READs its region
// header.
#pragma once

#include "common/bootstrap/membership.h"
#include "common/fabric/endpoint.h"
#include "common/status.h"
#include "gossamer/rdma_options.h"
#include "proto/region.h"

namespace gossamer {

// READs and checks the header of an attached server in one round trip. Polls `endpoint` until the
// READ has ended. Requires (unchecked): nothing else is in flight there. Errors: NodeUnreachable
// when the READ fails, Corruption when the bytes are no header or one that this build cannot use.
Result<RegionHeader> ReadRegionHeader(Endpoint& endpoint, ServerId server);

// A probe that uses a connection per server, for at most `timeout_ms`. A header with another store,
// incarnation or id means death, unless the process of the recorded server is known to run: then
// its address leads to another server. A server without a header that this build can read, and one
// that cannot be asked, are judged by their process, like one that does not answer: another version
// may serve a live store. Unless the process is gone, the probe then tells why.
LivenessProbe FabricProbe(const RdmaOptions& rdma = {}, uint32_t timeout_ms = 2000);

}  // namespace gossamer
