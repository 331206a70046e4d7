#include "common/admin/device_state.h"

#include <cassert>

namespace gossamer {

nlohmann::ordered_json DeviceState(const DeviceStat& device) {
  assert(!device.facts.empty());
  auto state = nlohmann::ordered_json::object();
  for (const auto& [name, value] : device.facts) state[name] = value;
  if (!device.trouble.empty()) state["trouble"] = device.trouble;
  state["events"] = device.events;
  return state;
}

void AddDevice(const DeviceStat& device, Families& families) {
  if (device.facts.empty()) return;
  MetricFamilyBuilder info =
      families.Gauge("gossamer_device_info", "The RDMA device and its port; always 1.");
  info.Add({}, uint64_t{1});
  for (const auto& [name, value] : device.facts) info.Label(name, value);
  families.Gauge("gossamer_device_usable", "Whether the RDMA device can be used: 1, else 0.",
                 uint64_t{device.trouble.empty()});
  MetricFamilyBuilder events =
      families.Counter("gossamer_device_events_total", "Asynchronous events of the RDMA device.");
  for (const auto& [name, count] : device.events) events.Add({{"event", name}}, count);
}

Status DeviceReadiness(const DeviceStat& device) {
  if (device.trouble.empty()) return Ok();
  return MakeError(Code::kNodeUnreachable, device.trouble);
}

}  // namespace gossamer
