// What RdmaOptions ask of a connection: checks of what the connection manager has chosen, and
// what it is told.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/fabric/verbs/address.h"
#include "common/fabric/verbs/device.h"
#include "common/fabric/verbs/resources.h"
#include "common/status.h"
#include "gossamer/rdma_options.h"

namespace gossamer::verbs {

// Whether `id`, bound to a device for `address`, is on the device and the port of the options.
// `is_own`: the address is this machine's.
// Errors: InvalidArgument, with both.
Status CheckDeviceAndPort(const rdma_cm_id& id, const RdmaOptions& rdma,
                          const SocketAddress& address, bool is_own);

// Whether `gid`, of the bound `id`, is the entry of the options.
// Errors: InvalidArgument, with both.
Status CheckGid(const rdma_cm_id& id, const RdmaOptions& rdma);

// This machine's address of the GID of the options, as the source of connections. Requires:
// options with a GID.
// Errors: InvalidArgument if the port has no such GID.
Result<SocketAddress> AddressOfGid(const Device& device, const RdmaOptions& rdma, bool is_v6);

// Whether a path MTU of `bytes`, of `whose`, is that of the options.
// Errors: InvalidArgument, with what to do.
Status CheckWantedMtu(const RdmaOptions& rdma, uint32_t bytes, std::string_view whose);

// Sets the traffic class of what `id`, or an identifier that it listens for, sends.
Status SetTrafficClass(rdma_cm_id& id, const RdmaOptions& rdma);

}  // namespace gossamer::verbs
