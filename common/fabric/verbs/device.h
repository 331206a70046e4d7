// An RDMA device: enumeration, capabilities, and memory registration.
//
// Thread-safety: const after `Open`; the libibverbs calls below are thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/fabric/verbs/device_events.h"
#include "common/fabric/verbs/resources.h"
#include "common/fabric/verbs/wire.h"
#include "common/status.h"

namespace gossamer::verbs {

// The size of our queue pairs on a device.
struct QueuePairSize {
  uint32_t verbs = 0;         // one-sided verbs posted and not completed
  uint32_t inline_bytes = 0;  // of a WRITE whose bytes travel with the doorbell
  // The provider is told which operations will be posted. mlx5 reserves 256 B in each entry of the
  // send ring for others.
  bool names_operations = true;
};

// Empty work requests, posted when the device seems to have lost a wake-up: the two halves of a
// queue pair of SoftRoCE (Linux 6.1, drivers/infiniband/sw/rxe) exchange "waiting for a fence"
// without synchronisation. Otherwise only the next doorbell would make up for the lost wake-up.
inline constexpr uint32_t kNudges = 8;

// The depth of a send queue for so many one-sided verbs.
constexpr uint32_t SendDepth(uint32_t verbs) { return verbs + kControlDepth + kNudges; }

// The attributes of a reliable connection of that size in `domain`, whose completions go to
// `queue`.
ibv_qp_init_attr_ex QueuePairAttributes(const QueuePairSize& size, ibv_pd* domain, ibv_cq* queue);

// Errors: Unsupported, with the remedy, when this machine has no RDMA device; InvalidArgument when
// it has none named `name` (empty: any).
Status CheckDevices(std::string_view name);

class Device {
 public:
  // The device of context `verbs`, which belongs to some communication identifier.
  static Result<std::shared_ptr<Device>> Open(ibv_context* verbs);
  // The device named `name`; empty: the first.
  static Result<std::shared_ptr<Device>> Find(std::string_view name);

  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  ibv_context* verbs() const { return verbs_; }
  ibv_pd* protection_domain() const { return protection_domain_.get(); }
  std::string name() const { return ibv_get_device_name(verbs_->device); }
  const ibv_device_attr& attributes() const { return attributes_.orig_attr; }
  uint64_t device_memory_bytes() const { return attributes_.max_dm_size; }
  bool has_atomics() const { return attributes().atomic_cap != IBV_ATOMIC_NONE; }
  const QueuePairSize& queue_pair_size() const { return queue_pair_size_; }
  DeviceEvents& events() const { return *events_; }
  // READs and atomics that one queue pair may have in flight, as requester and as responder.
  uint8_t initiator_depth() const;
  uint8_t responder_resources() const;
  uint8_t active_port() const { return active_port_; }  // the first that is up
  // In bytes, of that port.
  uint32_t active_mtu() const { return active_mtu_; }
  // In bytes, of one port. Errors: Unsupported when it is down.
  Result<uint32_t> ActiveMtu(uint8_t port) const;

  // Registers memory with rights `access` (IBV_ACCESS_…). Errors: NoResources, naming the memlock
  // limit.
  Result<MemoryRegion> Register(void* data, size_t bytes, int access) const;

 private:
  Device(ibv_context** list, ibv_context* verbs) : list_(list), verbs_(verbs) {}
  static Result<std::shared_ptr<Device>> Prepare(ibv_context** list, ibv_context* verbs);
  Status Measure();
  Status MeasureQueuePair();

  ibv_context** list_;  // keeps the context open while identifiers come and go
  ibv_context* verbs_;
  std::shared_ptr<DeviceEvents> events_;
  ProtectionDomain protection_domain_;
  ibv_device_attr_ex attributes_{};
  QueuePairSize queue_pair_size_;
  uint8_t active_port_ = 0;
  uint32_t active_mtu_ = 0;
};

constexpr uint32_t MtuBytes(ibv_mtu mtu) { return 128u << mtu; }
static_assert(MtuBytes(IBV_MTU_256) == 256 && MtuBytes(IBV_MTU_4096) == 4096);

}  // namespace gossamer::verbs
