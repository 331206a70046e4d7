// SimNetwork: a network of compute and memory servers in one thread, in virtual time, from one
// seed.
//
// The third fabric (`FabricKind::kSim`). It keeps CONTRACT.md. With its faults on, it does what
// CONTRACT.md leaves open: bytes land in any order, unordered verbs overtake, queue pairs break and
// their packets land late, clients die and pause. The same seed, options and calls give the same
// run on any machine: nothing depends on addresses or the wall clock.
//
//   SimNetwork network({.seed = 7, .faults = ParseSimFaults("tear,delay").value()});
//   MemoryPortOptions memory;  memory.network = &network;    OpenMemoryPort(FabricKind::kSim, …)
//   ComputePortOptions compute; compute.network = &network;  OpenComputePort(FabricKind::kSim, …)
//
// Time is a `steady_clock` that starts at 1 s and advances only from event to event: computing
// takes none. A driver with one client polls as on the other fabrics: `Endpoint::Poll` with nothing
// to report executes one event. A driver with many clients runs them in turn:
//
//   while (Endpoint* endpoint = network.RunUntilRunnable())
//     static_cast<Client*>(network.Owner(*endpoint))->scheduler.RunOnce();
//
// Time also passes in a blocking call (`Scheduler::Run`, `OpenStore::OpenOn`, a synchronous
// operation of a session): other clients' coroutines do afterwards what they would have done
// meanwhile. Polling for an hour of virtual time in which nothing can happen aborts the program.
//
// Lifetime: the network outlives its ports.
// Thread-safety: none; everything in a network belongs to one thread, including control handlers,
// which events call.
// Cost: about 100 ns per event and one to three events per verb; the steady state allocates
// nothing.
#pragma once

#include <cassert>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/compute_port.h"
#include "common/fabric/intrusive_queue.h"
#include "common/fabric/memory_port.h"
#include "common/fabric/sim/events.h"
#include "common/fabric/sim/fault.h"
#include "common/fabric/sim/in_flight.h"
#include "common/fabric/sim/options.h"
#include "common/fabric/sim/queue_pair.h"
#include "common/fabric/sim/server.h"
#include "common/fabric/simulated_network.h"
#include "common/random.h"
#include "common/status.h"

namespace gossamer {
namespace sim {

class SimEndpoint;

// Links that are down for a while: between a client, or one endpoint of it, and one memory server
// or all.
struct Outage {
  static constexpr uint64_t kAll = ~uint64_t{0};

  uint64_t client_uuid = 0;
  uint64_t endpoint_id = kAll;
  uint64_t server_number = kAll;
  Nanoseconds until = 0;

  bool Concerns(uint64_t client, uint64_t endpoint) const {
    return client_uuid == client && (endpoint_id == kAll || endpoint_id == endpoint);
  }
  bool IsTo(uint64_t server) const { return server_number == kAll || server_number == server; }
};

// A compute server.
struct ClientState final : Event {
  explicit ClientState(uint64_t client_uuid) : Event(EventKind::kClient), uuid(client_uuid) {}

  const uint64_t uuid;
  bool dead = false;
  Nanoseconds paused_until = 0;
  Nanoseconds lags_until = 0;  // its last batch that arrives late
  NicQueue nic;
};

// A `WakeAt` that is not due yet.
struct Wake final : Event {
  Wake() : Event(EventKind::kWake) {}

  uint64_t endpoint_id = 0;
};

// An endpoint learns that a queue pair broke, and gets back what it had posted there.
struct Notice final : Event {
  Notice() : Event(EventKind::kNotice) {}

  uint64_t endpoint_id = 0;
  ServerId server{0};
  IntrusiveQueue<Batch> batches;
  IntrusiveQueue<ControlCall> calls;
};

// The driver of the network does something.
struct DriverEvent final : Event {
  DriverEvent() : Event(EventKind::kDriver) {}

  std::function<void()> act;
};

// The part of a control call that is lost while its queue pair stays usable.
enum class CallLoss : uint8_t {
  kNone,
  kRequest,
  kAnswer,
  kLate,  // the request is handled, but not before its caller has given up
};

class SimNetwork final : public SimulatedNetwork {
  SimOptions options_;  // first: its seed begins the random streams

 public:
  using Clock = Endpoint::Clock;

  explicit SimNetwork(const SimOptions& options) : options_(options) {}
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  Result<std::unique_ptr<MemoryPort>> OpenMemoryPort(const MemoryPortOptions& options) override;
  Result<std::unique_ptr<ComputePort>> OpenComputePort(const ComputePortOptions& options) override;

  const SimOptions& options() const { return options_; }
  // Replaces the faults from now on: for set-up and for a final check. Requires (unchecked):
  // nothing is in flight. Without `partition`, all links come up.
  void SetFaults(const SimFaults& faults) {
    options_.faults = faults;
    if (!faults.partition) outages_.clear();
  }
  Clock::time_point Now() const { return TimeAt(now_); }

  // Executes events until an endpoint has something to report, or a `WakeAt` of it is due. Returns
  // that endpoint for the caller to poll (`Scheduler::RunOnce`); endpoints come in the order in
  // which they became runnable. Null if nothing is left that could make an endpoint runnable.
  Endpoint* RunUntilRunnable();
  // Executes the next event. Returns false if there is none.
  bool RunOne();

  // A pointer of the driver's for each endpoint; null until set.
  void SetOwner(Endpoint& endpoint, void* owner);
  void* Owner(Endpoint& endpoint) const;
  // The endpoint's id in SimFault.
  uint64_t IdOf(Endpoint& endpoint) const;

  // Ends the process of this client. Of what it has posted, a set closed under the ordered pairs
  // lands (D1, D2), at any time until the memory server fences it. Its own verbs end as kUnknown or
  // kFlushed, so that its coroutines unwind. All its later calls fail at once (`Attach` and
  // `Reconnect` with NodeUnreachable), and its destructors send no disconnect to a memory server.
  void KillClient(uint64_t client_uuid);
  // A client that the `cut` fault has killed since the last call, if any. Call it before polling
  // endpoints, because a dead client is told of its verbs' end.
  std::optional<uint64_t> TakeKilledInBatch();
  // Stops the client's process: its endpoints are not runnable until `until`. Its posted verbs and
  // its lease are not affected.
  void PauseClient(uint64_t client_uuid, Clock::time_point until);

  // All faults that have kept endpoints from memory servers so far, in order of `from`.
  const std::vector<SimFault>& faults_met() const { return fault_log.faults(); }

  // Stops the process of the memory server at `address` until `until`: its control service does
  // nothing; verbs, which do not need it, still work.
  void StopServer(const std::string& address, Clock::time_point until);
  // Each verb and call at that server takes up to `longest` longer until `until`.
  void SlowServer(const std::string& address, Clock::time_point until,
                  std::chrono::nanoseconds longest);

  // All memory of the memory server at `address`, for the driver to inspect and change. Empty if
  // there is no server.
  std::span<std::byte> Memory(const std::string& address);

  // Changes the path to the memory server at `address`: queue pairs made from now on have this MTU,
  // in bytes.
  void SetPathMtu(const std::string& address, uint32_t bytes);

  // Calls `act` at `due`, also while somebody polls an endpoint: what it must not do itself.
  void CallAt(Clock::time_point due, std::function<void()> act);

  // Calls `tell` with a line, without the time, for every posted verb, every effect and every loss,
  // in the order of time. For debugging one run: it is slow.
  void SetTeller(std::function<void(const std::string&)> teller) { tell = std::move(teller); }

  // The driver's own random stream, which the network does not draw from.
  Random& random() { return driver_random_; }
  const SimCounters& counters() const { return counters_; }
  // A hash over all events and their times: runs that differ in any event have different hashes.
  uint64_t TraceHash() const { return trace_hash_; }

  // ---- For its ports, endpoints, memory servers and queue pairs.

  const SimCosts& costs() const { return options_.costs; }
  SimCounters& counters() { return counters_; }
  Nanoseconds now() const { return now_; }
  static Clock::time_point TimeAt(Nanoseconds at) {
    return Clock::time_point(std::chrono::nanoseconds(at));
  }

  // Whether the `cut` fault now kills a client that is between two WRITEs.
  bool DrawsDeathInBatch();
  // The `cut` fault kills `client`.
  void KillInBatch(const ClientState& client);
  // A batch has ended: the `pause` fault may now stop the thread of `endpoint`, or its client.
  void MayStopBehind(const Batch& batch, SimEndpoint& endpoint);

  CallLoss DrawCallLoss();

  // Whether the `partition` fault strikes now, with probability 1 / `one_in`.
  bool DrawsPartition(uint32_t one_in);
  // Takes that link down, and perhaps more.
  void Partition(const SimEndpoint& endpoint, uint64_t server_number);
  // When that link comes up; not later than now: it is up.
  Nanoseconds DownUntil(uint64_t client_uuid, uint64_t endpoint_id, uint64_t server_number) const;

  // Memory servers, by the number in their address.
  uint64_t NextServer() const { return servers_.size(); }
  // Whether it is that of a removed server.
  bool IsFree(uint64_t number) const {
    return number < servers_.size() && servers_[number] == nullptr;
  }
  // Requires: the number is free, or the next one.
  void AddServer(Server& server, uint64_t number) {
    assert(IsFree(number) || number == NextServer());
    if (number == NextServer()) servers_.push_back(nullptr);
    servers_[number] = &server;
  }
  void RemoveServer(uint64_t number) { servers_[number] = nullptr; }
  Server* FindServer(uint64_t number) {
    return number < servers_.size() ? servers_[number] : nullptr;
  }

  // Null if there is no server at `address`.
  Server* FindServer(const std::string& address);

  ClientState& FindClient(uint64_t client_uuid);
  // Returns its id, which is never reused.
  uint64_t AddEndpoint(SimEndpoint& endpoint);
  void RemoveEndpoint(SimEndpoint& endpoint);
  // The endpoint has something to report.
  void MakeRunnable(SimEndpoint& endpoint);
  // The endpoint has nothing to report any more.
  void TakeOut(SimEndpoint& endpoint);
  void WakeAt(SimEndpoint& endpoint, Nanoseconds due);

  EventQueue events;
  Pool<Transit> transits;
  Pool<VerbInFlight> operations;
  Pool<CallInFlight> calls;
  Pool<Notice> notices;
  Pool<Farewell> farewells;
  Pool<ServerEvent> server_events;

  // The flight time from one NIC to another.
  Nanoseconds FlightTime();
  // The extra time of a verb, answer or message under the `delay` fault.
  Nanoseconds ExtraDelay();
  // The extra time until a batch arrives, under the same fault. May take down the client's links to
  // other memory servers.
  Nanoseconds LagOf(const Batch& batch, ClientState& client, const Server& server);
  // The same of a control call, which may be later.
  Nanoseconds CallDelay();
  // The extra time of a clean WRITE (tear.h) under the `delay` fault: READs see it in part for
  // longer.
  Nanoseconds LongSight();
  // The time until a packet of a broken queue pair takes effect.
  Nanoseconds LateTime();
  // The time from the end of a late call to its handling.
  Nanoseconds LateCallTime();
  // The time until a client learns that a queue pair is broken.
  Nanoseconds NoticeTime();
  // Random streams of the seed, one for each purpose.
  Random delay_random{options_.seed, 2};
  Random tear_random{options_.seed, 3};
  Random loss_random{options_.seed, 4};
  Random partition_random{options_.seed, 5};
  Random call_random{options_.seed, 6};
  Random stop_random{options_.seed, 7};
  Random lag_random{options_.seed, 8};

  FaultLog fault_log;
  // Mixes `what` into the trace hash.
  void Trace(uint64_t what) { trace_hash_ = SplitMix64::Mix(trace_hash_ + what) + what; }
  // The listener of SetTeller; may be empty.
  std::function<void(const std::string&)> tell;

 private:
  void Execute(Event& event);
  void TakeDown(const Outage& outage);

  Random driver_random_{options_.seed, 1};
  SimCounters counters_;
  Nanoseconds now_ = 1'000'000'000;
  Nanoseconds idle_since_ = now_;
  uint64_t trace_hash_ = 0;
  std::vector<Server*> servers_;
  std::vector<SimEndpoint*> endpoints_;      // by id; null: gone
  std::map<uint64_t, ClientState> clients_;  // by uuid
  std::vector<SimEndpoint*> runnable_;       // a queue: from `next_runnable_` on
  size_t next_runnable_ = 0;
  std::vector<Outage> outages_;            // includes some that are over
  std::vector<uint64_t> killed_in_batch_;  // clients not yet returned by TakeKilledInBatch
  Pool<Wake> wakes_;
  Pool<DriverEvent> driver_events_;
};

}  // namespace sim

using sim::SimNetwork;

}  // namespace gossamer
