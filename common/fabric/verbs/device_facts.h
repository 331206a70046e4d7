// What the report of a memory server at its start tells of its RDMA device: by these facts somebody
// sees at once whether it uses the port, the kind of RoCE and the packet size that were meant.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "common/fabric/memory_port.h"
#include "common/fabric/verbs/device.h"

namespace gossamer::verbs {

// Of the device and the port that `bound`, on that device, is bound to. Of several entries of the
// GID table with its address, one of RoCE v2 is told: which one is used, the connection manager's
// default_roce_mode says.
DeviceFacts FactsOf(const Device& device, const rdma_cm_id& bound);

// Of ibv_port_attr: "100 Gb/s", or "unknown" for a code that is none of the InfiniBand
// architecture's (volume 1, PortInfo: LinkSpeedActive, LinkWidthActive).
std::string LinkSpeed(uint8_t active_speed, uint8_t active_width);

}  // namespace gossamer::verbs
