// An RDMA device in /state and /metrics, alike in all programs.
#pragma once

#include <nlohmann/json.hpp>

#include "common/admin/metrics.h"
#include "common/status.h"
#include "gossamer/device_stat.h"

namespace gossamer {

// The field `device` of /state. Requires: a device.
nlohmann::ordered_json DeviceState(const DeviceStat& device);

// None without a device.
void AddDevice(const DeviceStat& device, Families& families);

// Errors: NodeUnreachable with the reason, if the device cannot be used.
Status DeviceReadiness(const DeviceStat& device);

}  // namespace gossamer
