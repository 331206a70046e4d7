// SimNetwork: a network of compute and memory servers in one thread, in virtual time, from one
// seed.
//
// The third fabric (`FabricKind::kSim`). It keeps CONTRACT.md and, with its faults on, does what
// that leaves open: bytes land in any order, unordered verbs overtake, queue pairs break and their
// packets land late, clients die and pause. The same seed, options and calls give the same run, on
// any machine: nothing depends on addresses, on the wall clock or on anything but the seed.
//
//   SimNetwork network({.seed = 7, .faults = ParseSimFaults("tear,delay").value()});
//   MemoryPortOptions memory;  memory.network = &network;    OpenMemoryPort(FabricKind::kSim, …)
//   ComputePortOptions compute; compute.network = &network;  OpenComputePort(FabricKind::kSim, …)
//
// Time is that of a `steady_clock` which starts at 1 s and passes from event to event only:
// computing takes none. Whoever has one client polls as on the other fabrics: `Endpoint::Poll` with
// nothing to report executes one event. Whoever has many runs them in turn:
//
//   while (Endpoint* endpoint = network.RunUntilRunnable())
//     static_cast<Client*>(network.Owner(*endpoint))->scheduler.RunOnce();
//
// Time passes in a blocking call, too (`Scheduler::Run`, `OpenStore::OpenOn`, a synchronous
// operation of a session): what others' coroutines would have done meanwhile, they do afterwards.
// Whoever polls for an hour of it in which nothing can happen any more ends the program.
//
// Lifetime: the network outlives its ports. Thread-safety: none; everything in a network belongs to
// one thread, control handlers too, which are called while events are executed. Cost: about 100 ns
// an event and one to three events a verb; the steady state allocates nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/fabric/fabric.h"
#include "common/fabric/sim/costs.h"
#include "common/fabric/sim/fault.h"
#include "common/random.h"
#include "common/status.h"

namespace gossamer {

namespace sim {
class Network;
}

// What the network does beside what it should; all off: ideal, still with latencies.
struct SimFaults {
  // READs and WRITEs take effect byte by byte, in any order, spread over time (A3).
  bool tear = false;
  // Any verb, answer or message may take long: mostly little, seldom `SimOptions::longest_delay`.
  bool delay = false;
  // Whatever CONTRACT.md leaves unordered overtakes (N1 to N4).
  bool reorder = false;
  // An atomic puts its result into memory later than it read the word, as rxe of Linux 6.1 does
  // under a lock that only atomics take: a WRITE in between is lost, also to a CAS that fails (A2).
  bool write_back = false;
  // Queue pairs break at any verb. What was on its way lands in part, and late: at any time until
  // a `QueuePairRequest` has ended or the client is fenced (rule U1).
  bool break_queue_pairs = false;
  // Links are down for a while, of one endpoint or of a whole client, to one memory server or to all: queue pairs break as
  // above, and each `QueuePairRequest` fails with NodeUnreachable until the link is up again. Soon after, it may be down
  // once more. What the memory server sees of it is silence: a lease may run out.
  bool partition = false;
  // Control calls are lost, on their way or with their answers, while the queue pair lives: they end as kUnknown after
  // `SimOptions::connection_timeout` (E7).
  bool lose_calls = false;
  // Clients die between two WRITEs of one batch: the first took effect, and of what comes behind it nothing ever does,
  // here or on the client's other queue pairs. The driver asks `TakeCut` who it was.
  bool cut = false;
  // For the driver, which does them through the calls below; the network ignores them.
  bool kill = false;
  bool pause = false;
};

// "none", "all", or some of tear, delay, reorder, write_back, break, partition, calls, cut, kill, pause
// with commas between them.
Result<SimFaults> ParseSimFaults(std::string_view list);
std::string SimFaultsText(const SimFaults& faults);  // as it is parsed

struct SimOptions {
  uint64_t seed = 1;
  SimFaults faults{};
  SimCosts costs{};
  uint32_t path_mtu = 4096;  // bytes
  uint32_t max_outstanding_verbs = 128;
  // One in so many; 0: never.
  uint32_t verbs_per_break = 1000;
  uint32_t verbs_per_partition = 1000;
  uint32_t most_partitions = 16;
  uint32_t calls_per_loss = 20;
  uint32_t writes_per_cut = 8;  // of those with another one before them in their batch
  uint32_t most_cuts = 4;
  uint32_t verbs_per_long_delay = 16;
  uint32_t writes_per_long_sight = 4;  // of those that are seen part by part, those for longer
  uint32_t reads_per_seam = 0;         // of those that see them: those that are torn themselves
  std::chrono::nanoseconds longest_delay = std::chrono::milliseconds(1);
  // How late a packet of a broken queue pair lands that nobody reconnects or fences.
  std::chrono::nanoseconds latest_packet = std::chrono::milliseconds(100);
  // How late a client learns that its queue pair is broken.
  std::chrono::nanoseconds latest_notice = std::chrono::milliseconds(1);
  // How long a link is down at most.
  std::chrono::nanoseconds longest_partition = std::chrono::milliseconds(10);
  // For how long a `QueuePairRequest` tries while it is.
  std::chrono::nanoseconds connection_timeout = std::chrono::milliseconds(1);
  // Memory servers see the death of a client by themselves, as in shm, after some time up to this;
  // 0: they do not, and its lease runs out.
  std::chrono::nanoseconds observes_death{0};
};

// How often what happened; for tests that faults do happen.
struct SimCounters {
  uint64_t events = 0;
  uint64_t verbs = 0;               // that took effect
  uint64_t calls = 0;               // that a memory server answered
  uint64_t lost_calls = 0;          // while their queue pair went on
  uint64_t torn_reads = 0;          // that took their bytes at more than one time
  uint64_t torn_writes = 0;         // likewise
  uint64_t overtaken = 0;           // verbs that began before an earlier one of their queue pair
  uint64_t long_delays = 0;         // of verbs, answers and messages
  uint64_t written_back = 0;        // CASes that failed and put the old value back
  uint64_t lost_to_write_back = 0;  // atomics that overwrote what a WRITE had put there meanwhile
  uint64_t broken_queue_pairs = 0;  // at random
  uint64_t late_packets = 0;        // verbs that took effect after their queue pair had broken
  uint64_t dropped_packets = 0;     // verbs that never did
  uint64_t partitions = 0;          // links that were down
  uint64_t failed_connects = 0;     // `QueuePairRequest`s while one was
  uint64_t unheard_farewells = 0;   // queue pairs whose endpoint was destroyed while they were lost
  uint64_t killed_clients = 0;
  uint64_t cuts = 0;  // of these: clients that died between two WRITEs
  uint64_t fenced_clients = 0;
  uint64_t stopped_servers = 0;
  uint64_t slow_servers = 0;
};

class SimNetwork final : public SimulatedNetwork {
 public:
  using Clock = Endpoint::Clock;

  explicit SimNetwork(const SimOptions& options);
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;
  ~SimNetwork();

  Result<std::unique_ptr<MemoryPort>> OpenMemoryPort(const MemoryPortOptions& options) override;
  Result<std::unique_ptr<ComputePort>> OpenComputePort(const ComputePortOptions& options) override;

  const SimOptions& options() const;
  // From now on these faults instead: for set-up and for a last look at what is left. Nothing is on its way. Without
  // `partition`, all links are up.
  void SetFaults(const SimFaults& faults);
  Clock::time_point Now() const;

  // Executes events until an endpoint has something to report, or a `WakeAt` of it is due; returns
  // it. It is for the caller to poll it then (`Scheduler::RunOnce`). Null when nothing is left that
  // could make an endpoint runnable. In the order in which they became runnable.
  Endpoint* RunUntilRunnable();
  // Executes the next event; false if there is none.
  bool RunOne();

  // A pointer of the driver's for each endpoint; null until set.
  void SetOwner(Endpoint& endpoint, void* owner);
  void* Owner(const Endpoint& endpoint) const;
  // What SimFault calls it.
  uint64_t IdOf(const Endpoint& endpoint) const;

  // The process of this client is gone. Of what it has posted, a set closed under the ordered pairs
  // lands (D1, D2), at any time until the memory server fences it. Its own verbs end as kUnknown or
  // kFlushed, so that its coroutines unwind; all that it does later fails at once (`Attach` and
  // `Reconnect` with NodeUnreachable) and no destructor of it says good-bye to a memory server.
  void KillClient(uint64_t client_uuid);
  // A client that the `cut` fault has killed since, if there is one: to be asked before endpoints are polled, as a dead
  // client is told of its verbs' end.
  std::optional<uint64_t> TakeCut();
  // Its process is stopped: its endpoints are not runnable until then, while its posted verbs and
  // its lease go on.
  void PauseClient(uint64_t client_uuid, Clock::time_point until);

  // All that kept endpoints from memory servers so far, in the order of their beginnings.
  const std::vector<SimFault>& faults_met() const;

  // The process of the memory server at `address` is stopped until then: its control service does nothing, while verbs go
  // on, which need none of it.
  void StopServer(const std::string& address, Clock::time_point until);
  // Each verb and call at it takes up to `longest` longer until then.
  void SlowServer(const std::string& address, Clock::time_point until,
                  std::chrono::nanoseconds longest);

  // All memory of the memory server at `address`, as it is now, for the driver to look at and to change; empty: there is no
  // server.
  std::span<std::byte> Memory(const std::string& address);

  // The path to the memory server at `address` is another one from now on: queue pairs that are made have this MTU, in
  // bytes.
  void SetPathMtu(const std::string& address, uint32_t bytes);

  // Has `tell` hear of every verb as it is posted and as it takes effect, and of every loss; in the order of time. A
  // line each, without the time. For people who look at one run: it is slow.
  void SetTeller(std::function<void(const std::string&)> tell);

  // For the driver's own choices: a stream of its own, which the network does not draw from.
  Random& random();
  const SimCounters& counters() const;
  // Over all events so far, with their times: two runs that differ in anything differ in it.
  uint64_t TraceHash() const;

  // For the fabric's own.
  sim::Network& network() { return *network_; }

 private:
  std::unique_ptr<sim::Network> network_;
};

}  // namespace gossamer
