// A memory server's side of a fabric: the memory that clients reach with verbs, and the control
// service.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/work_request.h"
#include "common/numa.h"
#include "common/on_chip_locks.h"
#include "common/status.h"
#include "gossamer/device_stat.h"
#include "gossamer/rdma_options.h"

namespace gossamer {

class SimulatedNetwork;

// Answers control messages on the memory server. The port's control thread makes all calls, one at
// a time.
class ControlHandler {
 public:
  virtual ~ControlHandler() = default;
  // `client_uuid` names the compute server that sent `request`. Writes the reply. Returns: its
  // bytes.
  virtual uint32_t Handle(uint64_t client_uuid, std::span<const std::byte> request,
                          std::span<std::byte, kMaxControlBytes> reply) = 0;
  // The last queue pair of a compute server is destroyed: the client closed it, died (and its
  // WRITEs are finished), or was fenced. None of its verbs can land any more.
  virtual void ClientGone(uint64_t client_uuid) = 0;
  // Called about every kTickInterval, by the same thread. Returns: the compute servers to fence:
  // `MemoryPort::Fence` follows for each.
  virtual std::vector<uint64_t> Tick(std::chrono::steady_clock::time_point /*now*/) { return {}; }
};

inline constexpr std::chrono::milliseconds kTickInterval{10};

enum class LockTablePlacement : uint8_t { kDeviceMemory, kDram };

// What became of the lock table. Where it is smaller than was asked for, more nodes share a lock.
struct LockTableFacts {
  LockTablePlacement placement = LockTablePlacement::kDram;
  uint64_t bytes = 0;  // a power of two
  std::string why;     // it is not where, or as large as, it was wished, for people; or empty
};

// Memory of a file that outlives this process: see proto/region_file.h.
struct KeptMemory {
  std::span<std::byte> region;
  std::string description;  // of its pages, as MemoryPort::memory_description
  // For clients in other processes of this machine: the file, which begins with the region, and
  // where in it they and the server share the pages of queue pairs.
  int file = -1;
  std::span<std::byte> queue_pair_pages;
  uint64_t queue_pair_pages_at = 0;
};

struct MemoryPortOptions {
  uint64_t region_bytes = 0;      // a multiple of 4096
  uint64_t lock_table_bytes = 0;  // a power of two
  std::string listen;     // verbs: ADDRESS:PORT; shm: path of a Unix socket, empty: a fresh one
  RdmaOptions rdma = {};  // verbs
  OnChipLocks on_chip_locks = OnChipLocks::kIfPossible;
  // verbs: clients wait for each verb before they post the next, for a device that does not order.
  bool one_verb_at_a_time = false;
  bool huge_pages = true;        // of 1 GB or 2 MB if there are any
  NumaWish numa = {};            // where the region lies
  bool in_process_only = false;  // shm: clients live in this process, so the memory needs no name
  uint32_t connection_timeout_ms = 2000;
  // verbs: for which a client's machine may be silent before its queue pairs are destroyed; at
  // least the connection time-out.
  uint32_t silence_ms = 0;
  // Called with the region, and with a lock table in DRAM, as soon as each is mapped. Its error
  // fails the opening of the port. Empty: pages are allocated on first use (verbs: when they are
  // registered). The simulator does not call it.
  std::function<Status(std::span<std::byte>)> touch = {};
  SimulatedNetwork* network = nullptr;  // sim: outlives the port
  // If set, the region is this memory, with what it holds, in place of zeroed memory. It outlives
  // the port. What a port before this one, in a process that has ended, has let clients do there
  // has ended when the port is open: no verb of theirs lands any more.
  const KeptMemory* kept = nullptr;
};

// A memory server's side of a fabric: the zeroed memory and the control service. Clients can
// connect from `Start` on; the destructor disconnects them.
class MemoryPort {
 public:
  virtual ~MemoryPort() = default;
  // `incarnation`, not 0, names this server among all that ever were (CONTRACT.md, E8).
  virtual Status Start(ControlHandler& handler, uint64_t incarnation) = 0;
  // Destroys every queue pair of a compute server, including one whose connection is being made.
  // Returns at once. `ControlHandler::ClientGone` follows when nothing of that compute server can
  // land any more (not called if it had no queue pair). Its verbs in flight end as kUnknown or
  // kFlushed. It may connect and register again afterwards. Thread-safety: any thread.
  virtual void Fence(uint64_t client_uuid) = 0;
  // Whether the port always notices the end of a compute server's process and then calls
  // `ClientGone`. If not, registrations are leases that expire.
  virtual bool observes_death() const = 0;
  // Ends the control service and breaks all queue pairs. The memory stays mapped until destruction.
  virtual void Stop() = 0;

  // The memory server's own view, for initialisation before `Start` and reading after `Stop`.
  virtual std::span<std::byte> region() = 0;
  // Input of `ComputePort::Connect`; one line without blanks.
  virtual std::string address() const = 0;
  virtual const LockTableFacts& lock_table() const = 0;
  // Bytes that one packet carries at most through this server's end of the network, whatever the
  // clients' ends carry.
  virtual uint32_t path_mtu() const = 0;
  // For the start-up report: "2 MB pages" or "4 KB pages (no huge pages: …)", and on which NUMA
  // nodes it lies.
  virtual std::string memory_description() const = 0;
  // The RDMA device. Other fabrics have none. Thread-safety: any thread.
  virtual DeviceStat device() const { return {}; }
};

}  // namespace gossamer
