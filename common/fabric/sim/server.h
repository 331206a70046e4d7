// A memory server of a simulated network: its memory, NIC, control service and queue pairs.
//
// Only verbs change the memory, at their events. Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/fabric/memory_port.h"
#include "common/fabric/sim/costs.h"
#include "common/fabric/sim/in_flight.h"
#include "common/fabric/sim/tear.h"
#include "common/huge_pages.h"

namespace gossamer::sim {

class SimNetwork;
class QueuePair;
class Server;
class SimEndpoint;
struct ClientState;

// One direction of a NIC: serves messages one after the other.
class NicQueue {
 public:
  // When a message with `bytes` of payload that arrives at `now` has passed.
  Nanoseconds Serve(const SimCosts& costs, Nanoseconds now, uint64_t bytes) {
    const auto for_bytes = static_cast<Nanoseconds>(bytes * 1000 / costs.wire_bytes_per_us);
    free_at_ = std::max(now, free_at_) + std::max<Nanoseconds>(costs.nic_message_ns, for_bytes);
    return free_at_;
  }

 private:
  Nanoseconds free_at_ = 0;
};

// A memory server's control thread reads its clock, or learns which clients are gone.
struct ServerEvent final : Event {
  ServerEvent() : Event(EventKind::kServer) { background = true; }

  Server* server = nullptr;
  bool is_tick = false;
};

class Server final : public MemoryPort {
 public:
  // Its address is "sim:NUMBER".
  static constexpr std::string_view kScheme = "sim:";

  static Result<std::unique_ptr<MemoryPort>> Open(SimNetwork& network,
                                                  const MemoryPortOptions& options,
                                                  uint64_t number);
  ~Server() override;

  uint64_t number() const { return number_; }
  std::span<std::byte> space(Space space) {
    return space == Space::kRegion ? memory_
                                   : std::span(lock_table_.data(), lock_table_facts_.bytes);
  }
  bool on_chip_locks() const {
    return lock_table_facts_.placement == LockTablePlacement::kDeviceMemory;
  }

  Status Start(ControlHandler& handler, uint64_t incarnation) override;
  // Breaks all queue pairs; nothing lands afterwards.
  void Stop() override;
  // Destroys the queue pairs of a client: what they have in flight lands now or never. A later
  // event calls `ClientGone` if there were any.
  void Fence(uint64_t client_uuid) override;
  bool observes_death() const override;
  std::span<std::byte> region() override { return space(Space::kRegion); }
  std::string address() const override;
  const LockTableFacts& lock_table() const override { return lock_table_facts_; }
  std::string memory_description() const override { return "simulated"; }
  bool serving() const { return handler_ != nullptr; }
  uint64_t incarnation() const { return incarnation_; }
  // For queue pairs that are opened from now on.
  void SetPathMtu(uint32_t bytes) { path_mtu_ = bytes; }
  uint32_t path_mtu() const override { return path_mtu_; }

  QueuePair& OpenQueuePair(SimEndpoint& endpoint, ClientState& client);
  // Lands or drops what is left of a broken queue pair, and destroys it. `replaced`: the client is
  // not gone, even if this was its last queue pair.
  void CloseQueuePair(QueuePair& queue_pair, bool replaced);
  // Likewise for queue pair `id` of `client`, if it exists, as if replaced; tells its endpoint.
  void CloseQueuePair(const ClientState& client, uint64_t id);

  // Stops its process until `until`; verbs still work.
  void StopUntil(Nanoseconds until) { stopped_until_ = std::max(stopped_until_, until); }
  Nanoseconds stopped_until() const { return stopped_until_; }
  // Each verb and call takes up to `longest` longer until `until`.
  void SlowUntil(Nanoseconds until, Nanoseconds longest) {
    slow_until_ = until;
    slowness_ = longest;
  }
  // The extra time of one verb or call now.
  Nanoseconds Slowness();
  // The control thread's work besides calls.
  void Tick();
  // Calls `ClientGone` for clients that are gone, before anything new begins in their names.
  void ReportGone();

  // Whether the server would perform this verb.
  bool Accepts(const Verb& verb);
  // Performs a READ or WRITE at once.
  void Apply(VerbInFlight& operation);
  ActiveVerbs active;
  // Answers `call`. Returns when the answer leaves.
  Nanoseconds Handle(CallInFlight& call, uint64_t client_uuid);

  NicQueue requests;
  NicQueue answers;
  // When the earlier atomics of this address's slot have ended.
  Nanoseconds& AtomicSlot(const VerbInFlight& operation);

 private:
  Server(SimNetwork& network, const MemoryPortOptions& options, uint64_t number);
  void GoneSoon(uint64_t client_uuid);

  SimNetwork& network_;
  const uint64_t number_;
  bool started_ = false;
  const LockTableFacts lock_table_facts_;
  uint32_t path_mtu_;
  MemoryMapping region_;         // unless it is memory that outlives this port
  std::span<std::byte> memory_;  // the region
  MemoryMapping lock_table_;
  ControlHandler* handler_ = nullptr;
  uint64_t incarnation_ = 0;
  std::vector<std::unique_ptr<QueuePair>> queue_pairs_;  // in the order opened
  uint64_t next_queue_pair_ = 1;
  std::vector<Nanoseconds> atomic_slots_;  // the region's, then the lock table's
  Nanoseconds control_free_at_ = 0;
  Nanoseconds stopped_until_ = 0;
  Nanoseconds slow_until_ = 0;
  Nanoseconds slowness_ = 0;
  ServerEvent& tick_;
  ServerEvent& gone_;
  std::vector<uint64_t> gone_clients_;
};

}  // namespace gossamer::sim
