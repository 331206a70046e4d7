// An RDMA device: which there are, what they can do, and memory registered with one.
//
// Thread-safety: const after `Open`; the calls of libibverbs below are thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/fabric/verbs/resources.h"
#include "common/fabric/verbs/wire.h"
#include "common/status.h"

namespace gossamer::verbs {

// How large a queue pair of ours can be on a device.
struct QueuePairSize {
  uint32_t verbs = 0;         // one-sided verbs posted and not completed
  uint32_t inline_bytes = 0;  // of a WRITE whose bytes travel with the doorbell
};

// Work requests of nothing, posted where the device seems to have gone to sleep: the two halves of
// a queue pair of SoftRoCE (Linux 6.1, drivers/infiniband/sw/rxe) tell each other "waiting for a
// fence" without synchronisation. A wake-up so lost would be made up for by the next doorbell only.
inline constexpr uint32_t kNudges = 8;

// How deep a send queue is that takes so many one-sided verbs.
constexpr uint32_t SendDepth(uint32_t verbs) { return verbs + kControlDepth + kNudges; }

// Unsupported, with what to do about it, when this machine has no RDMA device; InvalidArgument when
// it has none called `name` (empty: any will do).
Status CheckDevices(std::string_view name);

class Device {
 public:
  // The device that `verbs`, of some communication identifier, is a context of.
  static Result<std::shared_ptr<Device>> Open(ibv_context* verbs);
  // The device called `name`; empty: the first.
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
  // READs and atomics that one queue pair may have under way, as asker and as answerer.
  uint8_t initiator_depth() const;
  uint8_t responder_resources() const;
  // In bytes, of the first port that is up.
  uint32_t active_mtu() const { return active_mtu_; }
  // In bytes, of one port. Unsupported when it is down.
  Result<uint32_t> ActiveMtu(uint8_t port) const;

  // Registers memory with rights `access` (IBV_ACCESS_…). Exhausted names the memlock limit.
  Result<MemoryRegion> Register(void* data, size_t bytes, int access) const;

 private:
  Device(ibv_context** list, ibv_context* verbs) : list_(list), verbs_(verbs) {}
  static Result<std::shared_ptr<Device>> Prepare(ibv_context** list, ibv_context* verbs);
  Status Measure();
  Status MeasureQueuePair();

  ibv_context** list_;  // keeps the context open, which identifiers come and go with
  ibv_context* verbs_;
  ProtectionDomain protection_domain_;
  ibv_device_attr_ex attributes_{};
  QueuePairSize queue_pair_size_;
  uint32_t active_mtu_ = 0;
};

constexpr uint32_t MtuBytes(ibv_mtu mtu) { return 128u << mtu; }
static_assert(MtuBytes(IBV_MTU_256) == 256 && MtuBytes(IBV_MTU_4096) == 4096);

}  // namespace gossamer::verbs
