#include "compute/verify/sim/run.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include "common/embedded_memory.h"
#include "compute/verify/sim/audit.h"
#include "compute/verify/sim/blow_schedule.h"
#include "compute/verify/sim/client.h"
#include "compute/verify/sim/lagging.h"
#include "compute/verify/sim/last_sweep.h"
#include "compute/verify/sim/owners.h"
#include "compute/verify/sim/server_blows.h"
#include "compute/verify/sim/sweeper.h"
#include "compute/verify/sim/worn_memory.h"

namespace gossamer::simulator {
namespace {

// A run makes no progress if no operation ends in so many steps, or for so long.
constexpr uint64_t kMostStepsWithoutEnd = 10'000'000;
constexpr std::chrono::seconds kLongestWithoutEnd{60};
constexpr uint64_t kStepsBetweenOwners = 128;
constexpr uint64_t kStepsBetweenUses = 1024;
// Values name lives by 12 bits.
constexpr uint32_t kMostLives = 4000;

class Run {
 public:
  Run(const Plan& plan, std::ostream* trace)
      : plan_(plan),
        network_(plan.network),
        recorder_(network_, trace),
        workload_(plan),
        verdict_(plan, network_),
        random_(plan.seed, kDriverStream),
        membership_(plan_, network_, recorder_, verdict_, memory_, regions_),
        scene_{plan_,     network_,  record_,  plan.has_record() ? &membership_ : nullptr,
               recorder_, workload_, verdict_, clock_} {
    if (trace == nullptr) return;
    network_.SetTeller([this](const std::string& what) { recorder_.Tell(what); });
  }

  // A session waits for its coroutines when it ends. In a run without progress it would wait for
  // ever.
  bool is_stuck() const { return is_stuck_; }

  RunResult Do() {
    recorder_.Note("plan: " + ToString(plan_));
    network_.SetFaults({});
    const Status ready = SetUp();
    network_.SetFaults(plan_.network.faults);
    if (!ready) {
      verdict_.Wrong("the store cannot be set up: " + ready.error().ToString());
    } else {
      blows_.Draw(plan_, random_);
      for (const auto& client : clients_) client->Start();
      if (DriveToEnd()) {
        Drain();
        server_blows_.CheckSuccessors();
        const auto drive = [this](const std::function<bool()>& is_done) { RunUntil(is_done); };
        const bool is_whole = server_blows_.dead_servers() == 0 ||
                              (plan_.repair_us != 0 && RepairAtEnd(scene_, next_client_++, drive));
        if (is_whole) {
          result_.counts.swept_bytes = sweeper_.Overwrite();
          result_.counts.given_back_bytes = scene_.given_back_bytes;
          CheckWhoStayed(memory_, clients_, scene_);
          Audit(scene_, next_client_++, result_.counts);
          if (verdict_.problems().empty()) CloseAndSweep();
        } else {
          // Acknowledged data may be gone, but only with the memory server that held it.
          AuditHistory(scene_, result_.counts);
        }
      }
    }
    Conclude();
    return std::move(result_);
  }

 private:
  static constexpr uint64_t kDriverStream = ~uint64_t{1};

  Status SetUp() {
    record_.store = "sim";
    record_.store_id = SplitMix64::Mix(plan_.seed) | 1;
    EmbeddedMemoryOptions& options = memory_options_;
    options.memory_bytes = plan_.memory_bytes;
    options.parameters = plan_.parameters;
    options.chunk_bytes = plan_.chunk_bytes;
    options.lock_table_bytes = plan_.lock_table_bytes;
    options.lease_ms = plan_.lease_ms;
    options.on_chip_locks = plan_.on_chip_locks ? OnChipLocks::kIfPossible : OnChipLocks::kNever;
    options.network = &network_;
    options.clock = [this] { return clock_.NowUs(); };
    BOOST_OUTCOME_TRY(memory,
                      StartSimulatedMemory(options, plan_.servers, record_, plan_.bytes_of_first,
                                           plan_.returns == 0 ? nullptr : &regions_));
    memory_ = std::move(memory);
    if (plan_.worn_generation != 0) {
      BOOST_OUTCOME_TRYV(WearMemory(network_, record_, plan_.chunk_bytes, plan_.worn_generation));
    }
    if (scene_.membership != nullptr) membership_.Publish(record_);
    for (const ClientPlan& client : plan_.clients) clients_.push_back(NewClient(client));
    for (const auto& client : clients_) {
      BOOST_OUTCOME_TRYV(client->Open());
    }
    clients_.front()->Prefill(random_);
    return Ok();
  }

  std::unique_ptr<SimulatedClient> NewClient(const ClientPlan& plan) {
    return std::make_unique<SimulatedClient>(scene_, next_client_++, plan);
  }

  // Opens the client. If its connection breaks meanwhile, opens a replacement. Not after a memory
  // server died: no replacement could open the store, and endless tries would use up the lock
  // timeouts of other clients.
  Status OpenAnew(std::unique_ptr<SimulatedClient>& client) {
    while (true) {
      // As a store that opens its port itself does, which has a real clock.
      while (server_blows_.returns().are_away() && network_.RunOne()) {
      }
      const auto since = network_.Now();
      const Status opened = client->Open();
      // One that was killed meanwhile is left out, as if it had been waited for in vain.
      const bool is_whole = !verdict_.HasGoneSince(since);
      if (opened && is_whole) return Ok();
      const bool is_explained =
          opened || verdict_.ExplainsOpening(client->uuid(), since, opened.error());
      const bool is_lasting = server_blows_.dead_servers() != 0 && plan_.repair_us == 0 &&
                              verdict_.HasMetGoneServer(client->uuid(), since);
      if (!is_explained || is_lasting) return opened.error();
      if (next_client_ >= kMostLives) {
        verdict_.Wrong(fmt::format("clients have begun {} lives", kMostLives));
        return opened.error();
      }
      Bury(client);
      client = NewClient(client->plan());
    }
  }

  // Keeps the client's counts.
  void Bury(const std::unique_ptr<SimulatedClient>& client) {
    result_.counts.counters += client->counters();
  }

  // Kills the clients that the `cut` fault has killed in the network, before any of their
  // coroutines runs.
  void NoteKilledInBatch() {
    while (const std::optional<uint64_t> uuid = network_.TakeKilledInBatch()) {
      for (const auto& client : clients_) {
        if (client != nullptr && client->uuid() == *uuid) client->Kill();
      }
    }
  }

  void Stop(SimulatedClient& victim) {
    const auto pause =
        std::chrono::microseconds(1 + random_.Below(uint64_t{plan_.longest_pause_ms} * 1000));
    recorder_.Note(fmt::format("client {} stops for {} us", victim.number(), pause.count()));
    network_.PauseClient(victim.uuid(), network_.Now() + pause);
    verdict_.ClientStops(victim.uuid(), network_.Now() + pause);
    if (plan_.longest_lag_us != 0) {
      lagging_.Draw(victim, network_.Now() + pause, plan_.longest_lag_us, random_);
    }
  }

  // Somewhere on the way of an operation or a merge.
  void StopAtWork() {
    constexpr uint64_t kStepsOfAnOperation = 8;
    if (stops_due_ == 0 || random_.Below(kStepsOfAnOperation) != 0) return;
    for (const auto& client : clients_) {
      const bool is_victim = client != nullptr && !client->is_dead() && !client->has_left() &&
                             (client->is_merging() || recorder_.IsBusy(client->number()));
      if (!is_victim || random_.Below(2) != 0) continue;
      --stops_due_;
      Stop(*client);
      return;
    }
  }

  void Strike() {
    StopAtWork();
    while (const std::optional<Blow::Kind> kind = blows_.Take(workload_.begun())) {
      if (server_blows_.Strike(*kind)) continue;
      const bool kills = kind == Blow::Kind::kKill;
      std::vector<SimulatedClient*> living;
      for (const auto& client : clients_) {
        if (client != nullptr && !client->is_dead() && !client->has_left()) {
          living.push_back(client.get());
        }
      }
      if (living.empty() || (kills && living.size() < 2)) continue;
      SimulatedClient& victim = *living[random_.Below(living.size())];
      if (kills) {
        victim.Kill();
      } else if (kind == Blow::Kind::kLeave) {
        victim.Leave(random_);
      } else if (plan_.stops_at_work) {
        ++stops_due_;
      } else {
        Stop(victim);
      }
    }
  }

  // Closes clients that are gone once nothing of them is left, and replaces them while there is
  // work. Returns false after a finding that ends the run.
  bool Replace() {
    for (auto& client : clients_) {
      if (client == nullptr) continue;
      client->Renew();
      if (!client->is_dead() && !client->has_left()) continue;
      if (!client->is_over()) continue;
      Bury(client);
      const ClientPlan plan = client->plan();
      client.reset();
      if (workload_.begun() == plan_.operations) continue;
      client = NewClient(plan);
      const Status opened = OpenAnew(client);
      if (membership_.has_low_mtu()) {
        // The path's MTU is too low for a node in one packet (rule W2). A server out of reach is
        // left out.
        const bool leaves_it_out =
            opened && (verdict_.HasMetFault(client->uuid()) || !membership_.has_found_low_mtu());
        if (!leaves_it_out && (opened || opened.error().code != Code::kUnsupported)) {
          verdict_.Wrong("a client opens a store, where the MTU is too low for its nodes");
        }
        client.reset();
        continue;
      }
      if (!opened && server_blows_.dead_servers() != 0) {
        // Part of the store is gone.
        client.reset();
        continue;
      }
      if (!opened) {
        verdict_.Wrong("a client cannot open the store: " + opened.error().ToString());
        return false;
      }
      recorder_.Note(fmt::format("client {} begins", client->number()));
      client->Start();
    }
    return true;
  }

  bool IsDone() const {
    return std::all_of(clients_.begin(), clients_.end(), [](const auto& client) {
      return client == nullptr || (client->is_idle() && !client->is_dead() && !client->has_left());
    });
  }

  // Runs until every coroutine of every client has ended. Returns false if the run makes no
  // progress or cannot go on.
  bool DriveToEnd() {
    uint64_t ended = recorder_.ended();
    uint64_t steps_at_end = 0;
    auto time_at_end = network_.Now();
    while (true) {
      Strike();
      if (!Replace()) return false;
      if (IsDone()) return true;
      Endpoint* endpoint = network_.RunUntilRunnable();
      NoteKilledInBatch();
      if (endpoint == nullptr) return StandStill("nothing is left that could happen");
      Step(*endpoint);
      if (recorder_.ended() != ended) {
        ended = recorder_.ended();
        steps_at_end = result_.counts.steps;
        time_at_end = network_.Now();
      } else if (result_.counts.steps - steps_at_end > kMostStepsWithoutEnd) {
        return StandStill(fmt::format("no operation ends through {} steps", kMostStepsWithoutEnd));
      } else if (network_.Now() - time_at_end > kLongestWithoutEnd) {
        return StandStill(fmt::format("no operation ends for {} s", kLongestWithoutEnd.count()));
      }
    }
  }

  // Lets late packets of broken connections land and the leases of the dead end. Clients that lost
  // a memory server find it again. Nothing else happens any more.
  void Drain() {
    constexpr std::chrono::seconds kUntilEverybodyHasTriedAgain{1};
    network_.SetFaults({});
    RunUntil([this] { return server_blows_.returns().are_over(); });
    if (scene_.membership != nullptr) membership_.EndFaults();
    auto until = network_.Now() + 2 * plan_.network.latest_packet +
                 2 * std::chrono::milliseconds(plan_.lease_ms);
    if (plan_.network.faults.partition || plan_.returns != 0) {
      until += kUntilEverybodyHasTriedAgain;
    }
    // A memory server that has just stopped fences nobody until it goes on.
    if (plan_.stalls != 0) until += std::chrono::milliseconds(plan_.longest_stall_ms);
    RunUntil([&] { return network_.Now() >= until; });
  }

  // Until then, or until nothing is left that could happen.
  void RunUntil(const std::function<bool()>& is_done) {
    while (!is_done()) {
      Endpoint* endpoint = network_.RunUntilRunnable();
      if (endpoint != nullptr) {
        Step(*endpoint);
      } else if (!network_.RunOne()) {
        return;
      }
    }
  }

  // What the clients leave behind is given back, and nothing of it is lost.
  void CloseAndSweep() {
    for (auto& client : clients_) {
      if (client == nullptr) continue;
      Bury(client);
      client.reset();
    }
    Drain();
    SweepAtEnd(scene_, next_client_++);
  }

  void Step(Endpoint& endpoint) {
    auto* session = static_cast<OpenSession*>(network_.Owner(endpoint));
    if (session != nullptr) {
      if (!lagging_.Has(session, endpoint, network_.Now())) session->Poll();
    } else {
      endpoint.Poll();
    }
    sweeper_.Look();
    if (scene_.membership != nullptr) membership_.Look();
    if (++result_.counts.steps % kStepsBetweenOwners == 0 && verdict_.problems().empty()) {
      CheckOwners(memory_, clients_, verdict_);
    }
    if (result_.counts.steps % kStepsBetweenUses == 0 && verdict_.problems().empty()) {
      CheckUse(network_, memory_, plan_.parameters, verdict_);
    }
  }

  bool StandStill(const std::string& why) {
    is_stuck_ = true;
    verdict_.Wrong("no progress at " + TimeText(network_.Now()) + ": " + why +
                   "; under way:" + recorder_.UnderWay());
    return false;
  }

  void Conclude() {
    RunCounts& counts = result_.counts;
    for (const auto& client : clients_) {
      if (client != nullptr) Bury(client);
    }
    counts.runs = 1;
    counts.dead_servers = server_blows_.dead_servers();
    counts.joined_servers = membership_.joined();
    counts.returned_servers = server_blows_.returns().returned();
    counts.operations = recorder_.ended();
    counts.lives = next_client_ - 1;
    counts.refused = verdict_.explained();
    counts.erased = scene_.erased;
    counts.replaced_nodes = scene_.replaced_nodes;
    counts.rests = scene_.rests;
    counts.virtual_ns = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(network_.Now() - start_).count());
    for (const history::Event& event : recorder_.events()) {
      const bool is_unknown = event.outcome == history::Outcome::kUnknown;
      counts.unknown += is_unknown ? 1 : 0;
      const bool modifies = event.kind == history::OperationKind::kModify && IsChange(event);
      counts.modified += modifies && !is_unknown ? 1 : 0;
    }
    counts.network = network_.counters();
    result_.hash = SplitMix64::Mix(recorder_.hash() + network_.TraceHash());
    result_.problems = verdict_.problems();
  }

  const Plan& plan_;
  StoreRecord record_;
  SimNetwork network_;
  Recorder recorder_;
  Workload workload_;
  Verdict verdict_;
  Random random_;
  Membership::Regions regions_;                          // of servers that come back
  std::vector<std::unique_ptr<EmbeddedMemory>> memory_;  // null: the server died
  Membership membership_;
  const StoreTime clock_{network_, plan_.clock_ppm};
  Scene scene_;
  RunResult result_;
  bool is_stuck_ = false;
  uint32_t next_client_ = 1;  // also a client uuid
  uint32_t stops_due_ = 0;    // of clients at work
  LaggingSessions lagging_;
  const Endpoint::Clock::time_point start_ = network_.Now();
  BlowSchedule blows_;
  EmbeddedMemoryOptions memory_options_;
  Sweeper sweeper_{network_, memory_, plan_.parameters};
  ServerBlows server_blows_{scene_, memory_options_, memory_, membership_, random_, blows_};
  std::vector<std::unique_ptr<SimulatedClient>> clients_;  // destroyed before the memory
};

}  // namespace

RunResult RunPlan(const Plan& plan, std::ostream* trace) {
  auto run = std::make_unique<Run>(plan, trace);
  RunResult result = run->Do();
  // Deliberately leaked until the process ends: this is a failure, so there are few of them.
  [[maybe_unused]] const Run* left = run->is_stuck() ? run.release() : nullptr;
  return result;
}

}  // namespace gossamer::simulator
