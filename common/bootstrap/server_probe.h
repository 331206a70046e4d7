// Asks a memory server over its fabric whether it is the recorded one: connects and READs its
// region header.
#pragma once

#include "common/bootstrap/membership.h"
#include "common/fabric/fabric.h"
#include "common/status.h"
#include "proto/region.h"

namespace gossamer {

// READs and checks the header of an attached server; one round trip. Polls `endpoint` until it has
// come, so nothing else may be in flight there. NodeUnreachable when it does not come, Corruption
// when it is none, or one that this build cannot use.
Result<RegionHeader> ReadRegionHeader(Endpoint& endpoint, ServerId server);

// A probe that asks each server in a connection of its own, for at most `timeout_ms`. A header with
// another store, incarnation or id is death, unless the process of the recorded server is known to
// run: then its address leads to another one. A server without a header that this build can read is
// judged by its process, like one that does not answer: another version may serve a live store.
LivenessProbe FabricProbe(uint32_t timeout_ms = 2000);

}  // namespace gossamer
