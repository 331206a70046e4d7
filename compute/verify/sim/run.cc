#include "compute/verify/sim/run.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "common/embedded_memory.h"
#include "common/text/human.h"
#include "compute/verify/sim/audit.h"
#include "compute/verify/sim/client.h"
#include "compute/verify/sim/successor.h"
#include "compute/verify/sim/sweeper.h"

namespace gossamer::simulator {
namespace {

// A run makes no progress if no operation ends in so many steps, or for so long.
constexpr uint64_t kMostStepsWithoutEnd = 10'000'000;
constexpr std::chrono::seconds kLongestWithoutEnd{60};
// Values name lives by 12 bits.
constexpr uint32_t kMostLives = 4000;

// An event that hits a client or a server.
struct Blow {
  enum class Kind : uint8_t { kKill, kPause, kLeave, kDeath, kSuccession, kStall, kJoin, kRecord };

  uint64_t at_operation = 0;  // when so many have begun, and
  uint64_t steps_later = 0;   // so many steps after that
  Kind kind = Kind::kKill;
};

class Run {
 public:
  Run(const Plan& plan, std::ostream* trace)
      : plan_(plan),
        network_(plan.network),
        recorder_(network_, trace),
        workload_(plan),
        verdict_(plan, network_),
        random_(plan.seed, kDriverStream),
        membership_(plan_, network_, recorder_, verdict_, memory_),
        scene_{plan_,     network_,  record_, plan.has_record() ? &membership_ : nullptr,
               recorder_, workload_, verdict_} {
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
      DrawBlows();
      for (const auto& client : clients_) client->Start();
      if (DriveToEnd()) {
        Drain();
        for (const auto& successor : successors_) {
          if (auto change = successor->FindChange()) verdict_.Wrong(std::move(*change));
        }
        if (result_.counts.dead_servers == 0) {
          result_.counts.swept_bytes = sweeper_.Overwrite();
          CheckWhoStayed();
          Audit(scene_, next_client_++, result_.counts);
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
    options.on_chip_locks = plan_.on_chip_locks;
    options.network = &network_;
    BOOST_OUTCOME_TRY(memory, StartSimulatedMemory(options, plan_.servers, record_));
    memory_ = std::move(memory);
    if (scene_.membership != nullptr) membership_.Publish(record_);
    for (const ClientPlan& client : plan_.clients) clients_.push_back(NewClient(client));
    for (const auto& client : clients_) {
      BOOST_OUTCOME_TRYV(client->Open());
    }
    clients_.front()->Prefill(random_);
    return Ok();
  }

  std::unique_ptr<Client> NewClient(const ClientPlan& plan) {
    return std::make_unique<Client>(scene_, next_client_++, plan);
  }

  // Opens the client. If its connection breaks meanwhile, opens a replacement.
  Status OpenAnew(std::unique_ptr<Client>& client) {
    while (true) {
      const auto since = network_.Now();
      const Status opened = client->Open();
      if (opened) return Ok();
      const bool is_explained = verdict_.ExplainsOpening(client->uuid(), since, opened.error());
      if (!is_explained || next_client_ >= kMostLives) {
        return opened.error();
      }
      Bury(client);
      client = NewClient(client->plan());
    }
  }

  // Keeps the client's counts.
  void Bury(const std::unique_ptr<Client>& client) {
    result_.counts.counters += client->counters();
  }

  void DrawBlows() {
    constexpr uint64_t kStepsOfAnOperation = 40;
    const auto draw = [&](uint32_t count, Blow::Kind kind) {
      for (uint32_t i = 0; i < count; ++i) {
        const uint64_t at = random_.Below(plan_.operations);
        blows_.push_back({at, random_.Below(kStepsOfAnOperation), kind});
      }
    };
    draw(plan_.kills, Blow::Kind::kKill);
    draw(plan_.pauses, Blow::Kind::kPause);
    draw(plan_.reopens, Blow::Kind::kLeave);
    draw(plan_.deaths, Blow::Kind::kDeath);
    draw(plan_.stalls, Blow::Kind::kStall);
    draw(plan_.joins, Blow::Kind::kJoin);
    draw(plan_.record_faults, Blow::Kind::kRecord);
    std::stable_sort(blows_.begin(), blows_.end(), [](const Blow& a, const Blow& b) {
      return a.at_operation > b.at_operation;  // the next one last
    });
  }

  // Kills the clients that the network cut, before any of their coroutines runs.
  void NoteCuts() {
    while (const std::optional<uint64_t> uuid = network_.TakeCut()) {
      for (const auto& client : clients_) {
        if (client != nullptr && client->uuid() == *uuid) client->Kill();
      }
    }
  }

  void Strike() {
    while (!blows_.empty() && workload_.begun() >= blows_.back().at_operation) {
      if (blows_.back().steps_later != 0) {
        --blows_.back().steps_later;
        return;
      }
      const Blow::Kind kind = blows_.back().kind;
      const bool kills = kind == Blow::Kind::kKill;
      blows_.pop_back();
      if (StrikeServer(kind)) continue;
      std::vector<Client*> living;
      for (const auto& client : clients_) {
        if (client != nullptr && !client->is_dead() && !client->is_lost()) {
          living.push_back(client.get());
        }
      }
      if (living.empty() || (kills && living.size() < 2)) continue;
      Client& victim = *living[random_.Below(living.size())];
      if (kills) {
        victim.Kill();
      } else if (kind == Blow::Kind::kLeave) {
        victim.Leave(random_);
      } else {
        const auto pause =
            std::chrono::microseconds(1 + random_.Below(uint64_t{plan_.longest_pause_ms} * 1000));
        recorder_.Note("client " + std::to_string(victim.number()) + " stops for " +
                       std::to_string(pause.count()) + " us");
        network_.PauseClient(victim.uuid(), network_.Now() + pause);
      }
    }
  }

  // Returns false if the blow is for a client.
  bool StrikeServer(Blow::Kind kind) {
    switch (kind) {
      case Blow::Kind::kDeath: EndServer(); return true;
      case Blow::Kind::kSuccession: StartSuccessor(); return true;
      case Blow::Kind::kStall: StallServer(); return true;
      case Blow::Kind::kRecord: membership_.Disturb(random_); return true;
      case Blow::Kind::kJoin:
        membership_.Join(memory_options_, random_.Below(100) < plan_.low_mtu_percent);
        return true;
      default: return false;
    }
  }

  EmbeddedMemory* PickServer(size_t& number) {
    number = random_.Below(memory_.size());
    return memory_[number].get();
  }

  void EndServer() {
    constexpr uint64_t kMostStepsWithout = 4000;
    size_t number = 0;
    EmbeddedMemory* const server = PickServer(number);
    if (server == nullptr) return;
    recorder_.Note("memory server " + std::to_string(number) + " dies");
    without_successor_.push_back(server->address());
    memory_[number].reset();
    ++result_.counts.dead_servers;
    if (random_.Below(100) >= plan_.successor_percent) return;
    const uint64_t steps = random_.Below(2) == 0 ? 0 : random_.Below(kMostStepsWithout);
    blows_.push_back({workload_.begun(), steps, Blow::Kind::kSuccession});
  }

  // The successor's own network has no faults.
  void StartSuccessor() {
    const std::string address = without_successor_.back();
    without_successor_.pop_back();
    const SimFaults faults = network_.options().faults;
    network_.SetFaults({});
    const auto number = static_cast<uint32_t>(successors_.size());
    auto successor = Successor::Start(memory_options_, address, number, plan_.work.keys(),
                                      [this](uint32_t key) { return workload_.keys().Text(key); });
    network_.SetFaults(faults);
    if (!successor) {
      return verdict_.Wrong("no memory server can be started at " + address + ": " +
                            successor.error().ToString());
    }
    recorder_.Note("a memory server of another store is at " + address);
    successors_.push_back(std::move(successor.value()));
  }

  void StallServer() {
    constexpr std::chrono::microseconds kSlowest{200};
    size_t number = 0;
    EmbeddedMemory* const server = PickServer(number);
    if (server == nullptr) return;
    const auto until = network_.Now() +
                       std::chrono::microseconds(1 + random_.Below(plan_.longest_stall_ms * 1000));
    const bool stops = random_.Below(2) == 0;
    recorder_.Note("memory server " + std::to_string(number) + (stops ? " stops" : " is slow") +
                   " until " + TimeText(until));
    if (stops) {
      network_.StopServer(server->address(), until);
    } else {
      network_.SlowServer(server->address(), until, kSlowest);
    }
  }

  // Closes clients that are gone once nothing of them is left, and replaces them while there is
  // work. Returns false after a finding that ends the run.
  bool Replace() {
    for (auto& client : clients_) {
      if (client == nullptr) continue;
      client->Renew();
      if (!client->is_dead() && !client->is_lost()) continue;
      if (!client->is_over()) continue;
      Bury(client);
      const ClientPlan plan = client->plan();
      client.reset();
      if (workload_.begun() == plan_.operations) continue;
      client = NewClient(plan);
      const Status opened = OpenAnew(client);
      if (membership_.has_low_mtu()) {
        // The path's MTU is too low for a node in one packet (rule W2).
        if (opened || opened.error().code != Code::kUnsupported) {
          verdict_.Wrong("a client opens a store, where the MTU is too low for its nodes");
        }
        client.reset();
        continue;
      }
      if (!opened && result_.counts.dead_servers != 0) {
        // Part of the store is gone.
        client.reset();
        continue;
      }
      if (!opened) {
        verdict_.Wrong("a client cannot open the store: " + opened.error().ToString());
        return false;
      }
      recorder_.Note("client " + std::to_string(client->number()) + " begins");
      client->Start();
    }
    return true;
  }

  bool IsDone() const {
    return std::all_of(clients_.begin(), clients_.end(), [](const auto& client) {
      return client == nullptr || (client->is_idle() && !client->is_dead() && !client->is_lost());
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
      NoteCuts();
      if (endpoint == nullptr) return StandStill("nothing is left that could happen");
      Step(*endpoint);
      if (recorder_.ended() != ended) {
        ended = recorder_.ended();
        steps_at_end = result_.counts.steps;
        time_at_end = network_.Now();
      } else if (result_.counts.steps - steps_at_end > kMostStepsWithoutEnd) {
        return StandStill("no operation ends through " + std::to_string(kMostStepsWithoutEnd) +
                          " steps");
      } else if (network_.Now() - time_at_end > kLongestWithoutEnd) {
        return StandStill("no operation ends for " + std::to_string(kLongestWithoutEnd.count()) +
                          " s");
      }
    }
  }

  // Lets late packets of broken connections land and the leases of the dead end. Clients that lost
  // a memory server find it again. Nothing else happens any more.
  void Drain() {
    constexpr std::chrono::seconds kUntilEverybodyHasTriedAgain{1};
    network_.SetFaults({});
    if (scene_.membership != nullptr) membership_.EndFaults();
    auto until = network_.Now() + 2 * plan_.network.latest_packet +
                 2 * std::chrono::milliseconds(plan_.lease_ms);
    if (plan_.network.faults.partition) until += kUntilEverybodyHasTriedAgain;
    while (network_.Now() < until) {
      Endpoint* endpoint = network_.RunUntilRunnable();
      if (endpoint != nullptr) {
        Step(*endpoint);
      } else if (!network_.RunOne()) {
        return;
      }
    }
  }

  // Live clients that were out of reach must be able to write again at once, and no operation may
  // wait for a lock.
  void CheckWhoStayed() {
    if (!plan_.network.faults.partition) return;
    for (const auto& client : clients_) {
      if (client == nullptr) continue;
      const std::string name = "at the end, client " + std::to_string(client->number());
      const size_t turns = client->CountTurns();
      if (turns != 0) verdict_.Wrong(name + " has " + HumanQuantity(turns, "turn") + " at locks");
      const uint64_t lost = verdict_.lost();
      client->PutByEachSession();
      if (verdict_.lost() != lost) verdict_.Wrong(name + " cannot write");
    }
  }

  void Step(Endpoint& endpoint) {
    auto* session = static_cast<OpenSession*>(network_.Owner(endpoint));
    if (session != nullptr) {
      session->Poll();
    } else {
      endpoint.Poll();
    }
    sweeper_.Look();
    if (scene_.membership != nullptr) membership_.Look();
    ++result_.counts.steps;
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
    counts.joined_servers = membership_.joined();
    counts.operations = recorder_.ended();
    counts.lives = next_client_ - 1;
    counts.refused = verdict_.explained();
    counts.virtual_ns = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(network_.Now() - start_).count());
    for (const history::Event& event : recorder_.events()) {
      counts.unknown += event.outcome == history::Outcome::kUnknown ? 1 : 0;
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
  std::vector<std::unique_ptr<EmbeddedMemory>> memory_;  // null: the server died
  Membership membership_;
  Scene scene_;
  RunResult result_;
  bool is_stuck_ = false;
  uint32_t next_client_ = 1;  // also a client uuid
  const Endpoint::Clock::time_point start_ = network_.Now();
  std::vector<Blow> blows_;
  EmbeddedMemoryOptions memory_options_;
  Sweeper sweeper_{network_, memory_, plan_.parameters};
  std::vector<std::unique_ptr<Successor>> successors_;
  std::vector<std::string> without_successor_;    // addresses
  std::vector<std::unique_ptr<Client>> clients_;  // destroyed before the memory
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
