// What the start-up reports of programs tell of their RDMA device, and whether it can be used: the
// facts show whether it is the intended port, RoCE version and path MTU.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/verbs/device.h"
#include "common/numa.h"

namespace gossamer::verbs {

// Facts about `device` and its port that `bound` is bound to. If several entries of the GID table
// have the bound address, the facts name one of RoCE v2. The connection manager uses the one that
// its setting default_roce_mode selects.
std::vector<std::pair<std::string, std::string>> FactsOf(const Device& device,
                                                         const rdma_cm_id& bound);

// The NUMA node that the device is attached to, or kUnknownNode.
int NumaNodeOf(const Device& device);

// The speed of a link by the codes of ibv_port_attr: "100 Gb/s". "unknown" if a code is not defined
// by the InfiniBand architecture (volume 1, PortInfo: LinkSpeedActive, LinkWidthActive).
std::string LinkSpeed(uint8_t active_speed, uint8_t active_width);

}  // namespace gossamer::verbs
