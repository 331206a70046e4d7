#include "common/fabric/verbs/device.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/fabric/verbs/wire.h"

namespace gossamer::verbs {
namespace {

// Upper bounds, reduced to what the device has. Queues deeper than a thread's coroutines fill, and
// inline WRITEs longer than a leaf's group, gain nothing.
constexpr uint32_t kWantedVerbs = 512;
constexpr uint32_t kLeastVerbs = 64;
constexpr uint32_t kWantedInlineBytes = 256;

constexpr std::string_view kNoDevice =
    "no RDMA device on this machine: use --fabric=shm, or load rdma_rxe (scripts/soft_roce)";

}  // namespace

Status CheckDevices(std::string_view name) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  std::string names;
  bool found = false;
  for (int i = 0; i < count; ++i) {
    const std::string_view device = ibv_get_device_name(list[i]);
    found |= device == name;
    names += (i == 0 ? "" : ", ") + std::string(device);
  }
  if (list != nullptr) ibv_free_device_list(list);
  if (count == 0) return MakeError(Code::kUnsupported, std::string(kNoDevice));
  if (!name.empty() && !found) {
    return MakeError(Code::kInvalidArgument,
                     "no RDMA device '" + std::string(name) + "': this machine has " + names);
  }
  return Ok();
}

Result<std::shared_ptr<Device>> Device::Open(ibv_context* verbs) {
  int count = 0;
  ibv_context** list = rdma_get_devices(&count);
  if (list == nullptr) return MakeError(Code::kUnsupported, std::string(kNoDevice));
  return Prepare(list, verbs);
}

Result<std::shared_ptr<Device>> Device::Find(std::string_view name) {
  BOOST_OUTCOME_TRYV(CheckDevices(name));
  int count = 0;
  ibv_context** list = rdma_get_devices(&count);
  for (int i = 0; i < count; ++i) {
    if (name.empty() || name == ibv_get_device_name(list[i]->device)) return Prepare(list, list[i]);
  }
  if (list != nullptr) rdma_free_devices(list);
  return MakeError(Code::kUnsupported,
                   "the RDMA connection manager knows no device: load the module rdma_ucm");
}

Result<std::shared_ptr<Device>> Device::Prepare(ibv_context** list, ibv_context* verbs) {
  std::shared_ptr<Device> device(new Device(list, verbs));
  BOOST_OUTCOME_TRYV(device->Measure());
  return device;
}

Device::~Device() {
  protection_domain_.reset();
  rdma_free_devices(list_);
}

Status Device::Measure() {
  protection_domain_.reset(ibv_alloc_pd(verbs_));
  if (!protection_domain_) return ErrnoError(Code::kNoResources, "protection domain on " + name());
  const int error = ibv_query_device_ex(verbs_, nullptr, &attributes_);
  if (error != 0) {
    return MakeError(Code::kUnsupported,
                     "asking " + name() + " for its limits: " + ErrnoText(error));
  }
  for (uint8_t port = 1; port <= attributes().phys_port_cnt && active_mtu_ == 0; ++port) {
    if (const Result<uint32_t> mtu = ActiveMtu(port)) active_mtu_ = mtu.value();
  }
  if (active_mtu_ == 0) return MakeError(Code::kUnsupported, "no port of " + name() + " is up");
  return MeasureQueuePair();
}

Result<uint32_t> Device::ActiveMtu(uint8_t port) const {
  ibv_port_attr attributes{};
  if (ibv_query_port(verbs_, port, &attributes) != 0 || attributes.state != IBV_PORT_ACTIVE) {
    return MakeError(Code::kUnsupported, fmt::format("port {} of {} is not up", port, name()));
  }
  return MtuBytes(attributes.active_mtu);
}

// Devices do not report their inline bytes, nor the queue depth with them: request queue pairs of
// decreasing size until one succeeds.
Status Device::MeasureQueuePair() {
  CompletionQueue queue(ibv_create_cq(verbs_, 1, nullptr, nullptr, 0));
  if (!queue) {
    const int refused = errno;
    return LockingError(Code::kNoResources, "completion queue on " + name(), refused);
  }
  const auto most = static_cast<uint32_t>(std::max(attributes().max_qp_wr, 0));
  uint32_t verbs = std::min(kWantedVerbs, most - std::min(most, SendDepth(0)));
  uint32_t inline_bytes = kWantedInlineBytes;
  int error = ENOSPC;  // of the smallest one that was tried
  while (verbs >= kLeastVerbs) {
    ibv_qp_init_attr wanted{};
    wanted.qp_type = IBV_QPT_RC;
    wanted.send_cq = wanted.recv_cq = queue.get();
    wanted.cap = {SendDepth(verbs), kControlDepth, 1, 1, inline_bytes};
    if (BareQueuePair(ibv_create_qp(protection_domain_.get(), &wanted))) {
      queue_pair_size_ = {verbs, inline_bytes};
      return Ok();
    }
    error = errno;
    // First halve the inline bytes down to none, then halve the verbs.
    if (inline_bytes > 0) {
      inline_bytes = inline_bytes > 32 ? inline_bytes / 2 : 0;
    } else {
      inline_bytes = kWantedInlineBytes;
      verbs /= 2;
    }
  }
  return LockingError(Code::kUnsupported,
                      fmt::format("{} has no queue pair of {} verbs", name(), kLeastVerbs), error);
}

uint8_t Device::initiator_depth() const {
  return static_cast<uint8_t>(std::clamp(attributes().max_qp_init_rd_atom, 1, 255));
}

uint8_t Device::responder_resources() const {
  return static_cast<uint8_t>(std::clamp(attributes().max_qp_rd_atom, 1, 255));
}

Result<MemoryRegion> Device::Register(void* data, size_t bytes, int access) const {
  MemoryRegion region(ibv_reg_mr(protection_domain_.get(), data, bytes, access));
  if (region) return region;
  const int error = errno;
  return LockingError(Code::kNoResources,
                      fmt::format("registering {} bytes with {}", bytes, name()), error);
}

}  // namespace gossamer::verbs
