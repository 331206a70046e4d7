// A device that is played from a recording: what libibverbs says about a NIC that is not there, and
// what its provider would make of our requests. Whoever links device_double.cc has no other devices.
//
// The sizes of send rings are computed as rdma-core's mlx5 provider does (providers/mlx5/verbs.c,
// mlx5_calc_sq_size): an entry has the segments of the longest operation that may be posted, and
// either the data or a pointer to it, in whole blocks of 64 B; a ring has a power of two of bytes.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gossamer::verbs::test {

struct DeviceRecording {
  struct Gid {
    uint32_t type = IBV_GID_TYPE_ROCE_V2;
    std::vector<uint8_t> address;  // the last bytes of the GID; the rest: those of an IPv4 address
  };

  std::string name = "mlx5_0";
  std::string firmware = {};
  bool is_mlx5 = true;            // extended queue pairs, thread domains
  int max_work_requests = 32768;  // of a queue
  int max_completions = 4194303;  // of a completion queue
  int max_reads = 16;             // in flight on a queue pair, at either end
  ibv_atomic_cap atomics = IBV_ATOMIC_HCA;
  uint64_t device_memory = 0;        // bytes
  uint64_t device_memory_taken = 0;  // by others; the device does not tell
  bool is_up = true;
  ibv_mtu mtu = IBV_MTU_4096;
  uint8_t link_speed = 32;
  uint8_t link_width = 2;
  std::vector<Gid> gids = {};
};

// A queue pair as the provider has made it.
struct MadeQueuePair {
  uint32_t entry_bytes = 0;
  uint32_t ring_bytes = 0;  // of the send queue
  uint32_t doorbell = 0;    // number of its register
  bool takes_lock = false;  // for each doorbell
};

class DeviceDouble {
 public:
  explicit DeviceDouble(DeviceRecording recording);
  ~DeviceDouble();
  DeviceDouble(const DeviceDouble&) = delete;
  DeviceDouble& operator=(const DeviceDouble&) = delete;

  ibv_context* context();
  // In the order made; those that are destroyed, too.
  const std::vector<MadeQueuePair>& queue_pairs() const;
  void SetUp(bool is_up);  // the port

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace gossamer::verbs::test
