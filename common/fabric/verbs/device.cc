#include "common/fabric/verbs/device.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/fabric/verbs/wire.h"

namespace gossamer::verbs {
namespace {

// Upper bounds, reduced to what the device has. A device has 16 READs of a queue pair in flight at
// most, so a deeper queue only waits; what exceeds it waits in the endpoint. Longer inline WRITEs
// than a leaf's unit gain nothing. On mlx5 an entry with both has 256 B, and a ring, whose size is a
// power of two, 32 KiB: the rings of many threads and servers stay in the processor's cache, from
// which the NIC fetches them.
constexpr uint32_t kWantedVerbs = 112;
static_assert(SendDepth(kWantedVerbs) == 128);
constexpr uint32_t kLeastVerbs = 64;
constexpr uint32_t kWantedInlineBytes = 192;

constexpr uint64_t kOperations = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE |
                                 IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

constexpr std::string_view kNoDevice =
    "no RDMA device on this machine: load the driver of its NIC (modprobe mlx5_ib, docs/rdma.md); "
    "without a NIC use --fabric=shm, or SoftRoCE (scripts/soft_roce)";

}  // namespace

ibv_qp_init_attr_ex QueuePairAttributes(const QueuePairSize& size, ibv_pd* domain, ibv_cq* queue) {
  ibv_qp_init_attr_ex wanted{};
  wanted.qp_type = IBV_QPT_RC;
  wanted.send_cq = wanted.recv_cq = queue;
  wanted.cap = {SendDepth(size.verbs), kControlDepth, 1, 1, size.inline_bytes};
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
  wanted.pd = domain;
  if (size.names_operations) {
    wanted.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    wanted.send_ops_flags = kOperations;
  }
  return wanted;
}

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
  BOOST_OUTCOME_TRY(events, DeviceEvents::Of(verbs));
  device->events_ = std::move(events);
  BOOST_OUTCOME_TRYV(device->Measure());
  return device;
}

Device::~Device() {
  protection_domain_.reset();
  events_.reset();
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
    const Result<uint32_t> mtu = ActiveMtu(port);
    if (!mtu) continue;
    active_port_ = port;
    active_mtu_ = mtu.value();
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
  QueuePairSize size{.verbs = std::min(kWantedVerbs, most - std::min(most, SendDepth(0))),
                     .inline_bytes = kWantedInlineBytes};
  int error = ENOSPC;  // of the smallest one that was tried
  while (size.verbs >= kLeastVerbs) {
    ibv_qp_init_attr_ex wanted = QueuePairAttributes(size, protection_domain_.get(), queue.get());
    if (BareQueuePair(ibv_create_qp_ex(verbs_, &wanted))) {
      queue_pair_size_ = size;
      return Ok();
    }
    error = errno;
    if (size.names_operations && (error == EOPNOTSUPP || error == ENOSYS || error == EINVAL)) {
      // Perhaps the provider is older than that.
      size.names_operations = false;
    } else if (size.inline_bytes > 0) {
      // First halve the inline bytes down to none, then halve the verbs.
      size.inline_bytes = size.inline_bytes > 32 ? size.inline_bytes / 2 : 0;
    } else {
      size.inline_bytes = kWantedInlineBytes;
      size.verbs /= 2;
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
