// The inside of SimNetwork: clock, events, clients, servers, endpoints, and random streams.
//
// Thread-safety: none.
#pragma once

#include <cassert>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/fabric/intrusive_queue.h"
#include "common/fabric/sim/events.h"
#include "common/fabric/sim/fault.h"
#include "common/fabric/sim/in_flight.h"
#include "common/fabric/sim/queue_pair.h"
#include "common/fabric/sim/server.h"
#include "common/fabric/sim/sim.h"
#include "common/random.h"

namespace gossamer::sim {

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

// The part of a control call that is lost while its queue pair stays usable.
enum class CallLoss : uint8_t {
  kNone,
  kRequest,
  kAnswer,
  kLate,  // the request is handled, but not before its caller has given up
};

class Network {
  SimOptions options_;  // first: its seed begins the random streams

 public:
  using Clock = Endpoint::Clock;

  explicit Network(const SimOptions& options) : options_(options) {}

  const SimOptions& options() const { return options_; }
  void SetFaults(const SimFaults& faults) {
    options_.faults = faults;
    if (!faults.partition) outages_.clear();
  }
  const SimCosts& costs() const { return options_.costs; }
  Nanoseconds now() const { return now_; }
  Clock::time_point Now() const { return Clock::time_point(std::chrono::nanoseconds(now_)); }

  bool RunOne();
  SimEndpoint* RunUntilRunnable();
  void KillClient(uint64_t client_uuid);
  void PauseClient(uint64_t client_uuid, Nanoseconds until);
  // Whether the `cut` fault now kills a client that is between two WRITEs.
  bool DrawsDeathInBatch();
  // The `cut` fault kills `client`.
  void KillInBatch(const ClientState& client);
  std::optional<uint64_t> TakeKilledInBatch();
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
  Random driver_random{options_.seed, 1};
  Random delay_random{options_.seed, 2};
  Random tear_random{options_.seed, 3};
  Random loss_random{options_.seed, 4};
  Random partition_random{options_.seed, 5};
  Random call_random{options_.seed, 6};
  Random stop_random{options_.seed, 7};
  Random lag_random{options_.seed, 8};

  SimCounters counters;
  FaultLog fault_log;
  // Mixes `what` into the trace hash.
  void Trace(uint64_t what) { trace_hash_ = SplitMix64::Mix(trace_hash_ + what) + what; }
  uint64_t trace_hash() const { return trace_hash_; }
  // The listener of SimNetwork::SetTeller; may be empty.
  std::function<void(const std::string&)> tell;

 private:
  void Execute(Event& event);
  void TakeDown(const Outage& outage);

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
};

}  // namespace gossamer::sim
