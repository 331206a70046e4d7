#include "compute/verify/sim/measure.h"

#include <fmt/core.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "common/embedded_memory.h"
#include "common/fabric/open/open_port.h"
#include "common/fabric/sim/sim.h"
#include "compute/bench/keys.h"
#include "compute/bench/workload.h"
#include "compute/research/sherman/store.h"
#include "compute/store/open_session.h"
#include "compute/store/open_store.h"
#include "compute/verify/sim/counts.h"

namespace gossamer::simulator {
namespace {

using bench::BenchOperation;
using Clock = SimNetwork::Clock;
using sherman::ShermanSession;
using sherman::ShermanStore;

constexpr uint32_t kKeyBytes = 8;
constexpr uint32_t kValueBytes = 8;
constexpr MeasuredDesign kNaive = {"naive", sherman::FindDesign("naive")};
constexpr MeasuredDesign kSherman = {"sherman", sherman::FindDesign("sherman")};
constexpr MeasuredDesign kProduct = {"gossamer"};
constexpr auto kLadder = [] {
  std::array<MeasuredDesign, sherman::kLadder.size() + 1> ladder;
  for (size_t i = 0; i < sherman::kLadder.size(); ++i) {
    ladder[i] = {sherman::kLadder[i].rung, sherman::kLadder[i].design};
  }
  ladder.back() = kProduct;
  return ladder;
}();
constexpr std::array<MeasuredDesign, 8> kOneByOne = {{
    {"combined commands only", sherman::Design{true, false, false, false}},
    {"on-chip locks only", sherman::Design{false, true, false, false}},
    {"hierarchical locks only", sherman::Design{false, false, true, false}},
    {"two-level versions only", sherman::Design{false, false, false, true}},
    {"no combined commands", sherman::Design{false, true, true, true}},
    {"no on-chip locks", sherman::Design{true, false, true, true}},
    {"no hierarchical locks", sherman::Design{true, true, false, true}},
    {"no two-level versions", sherman::Design{true, true, true, false}},
}};
constexpr std::array<MeasuredDesign, 2> kReleasedByCas = {{
    {"naive, locks released by CAS", sherman::Design{false, false, false, false, false}},
    {"sherman, locks released by CAS", sherman::Design{true, true, true, true, false}},
}};
// The designs compared when another option varies.
constexpr std::array<MeasuredDesign, 3> kCompared = {{kNaive, kSherman, kProduct}};

bench::Workload WorkloadOf(const MeasureOptions& options) {
  bench::Workload workload;
  workload.percent[static_cast<size_t>(BenchOperation::kRead)] = 100 - options.update_percent;
  workload.percent[static_cast<size_t>(BenchOperation::kUpdate)] = options.update_percent;
  workload.distribution = bench::Distribution::kZipfian;
  workload.ranks = options.ranks;
  return workload;
}

uint64_t NanosecondsOf(Clock::duration duration) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
}

// One measurement.
class Bench {
 public:
  Bench(const MeasureOptions& options, const MeasuredDesign& design)
      : options_(options),
        design_(design),
        network_(NetworkOptions(options)),
        ids_(options.records, 0) {
    result_.options = options;
    result_.design = design;
  }

  Result<Measurement> Do() {
    BOOST_OUTCOME_TRYV(StartMemory());
    BOOST_OUTCOME_TRYV(Load());
    for (uint32_t i = 0; i < options_.compute_servers; ++i) {
      BOOST_OUTCOME_TRY(server, OpenComputeServer(i + 1, options_.threads));
      compute_.push_back(std::move(server));
    }
    for (const ComputeServer& server : compute_) {
      BOOST_OUTCOME_TRYV(WarmUp(*server.threads.front().session));
    }
    SpawnAll();
    const std::chrono::milliseconds measured(options_.milliseconds);
    RunUntil(network_.Now() + measured);
    const Counters before = SumOfCounters();
    is_measuring_ = true;
    RunUntil(network_.Now() + measured);
    is_measuring_ = false;
    result_.counters = Since(before, SumOfCounters());
    result_.events = network_.counters().events;
    Finish();
    if (error_) return *error_;
    return std::move(result_);
  }

 private:
  struct Thread {
    std::unique_ptr<Session> session;
    Scheduler* scheduler = nullptr;  // the session's
  };
  struct ComputeServer {
    std::unique_ptr<Store> store;
    std::vector<Thread> threads;  // destroyed before the store
  };

  static SimOptions NetworkOptions(const MeasureOptions& options) {
    SimOptions network;
    network.seed = options.seed;
    network.costs = MeasuredSimCosts();
    network.observes_death = std::chrono::milliseconds(1);  // so that leases need no renewal
    return network;
  }

  Status StartMemory() {
    constexpr uint64_t kBytesOfARecord =
        64;  // about 30 at 35 records a leaf, and room for uneven shares
    constexpr uint64_t kSpareBytes = 64 << 20;
    record_.store = "measured";
    record_.store_id = 1;
    EmbeddedMemoryOptions memory;
    memory.memory_bytes = kSpareBytes + options_.records * kBytesOfARecord;
    memory.parameters.max_key_bytes = kKeyBytes;
    memory.parameters.inline_value_bytes = kValueBytes;
    const bool on_chip = !design_.research || design_.research->on_chip_locks;
    memory.on_chip_locks = on_chip ? OnChipLocks::kIfPossible : OnChipLocks::kNever;
    memory.network = &network_;
    BOOST_OUTCOME_TRY(started, StartSimulatedMemory(memory, options_.memory_servers, record_));
    memory_ = std::move(started);
    return Ok();
  }

  Result<ComputeServer> OpenComputeServer(uint64_t uuid, uint32_t threads) {
    ComputePortOptions port_options;
    port_options.client_uuid = uuid;
    port_options.network = &network_;
    BOOST_OUTCOME_TRY(port, OpenComputePort(FabricKind::kSim, port_options));
    ComputeServer server;
    if (design_.research) {
      BOOST_OUTCOME_TRY(store, ShermanStore::OpenOn(std::move(port), record_, *design_.research,
                                                    OpenOptions().cache_bytes));
      server.store = std::move(store);
    } else {
      TreeOptions tree;
      tree.seed = SplitMix64::Mix(options_.seed + (uuid << 32)) | 1;
      BOOST_OUTCOME_TRY(store, OpenStore::OpenOn(std::move(port), record_, tree));
      server.store = std::move(store);
    }
    for (uint32_t i = 0; i < threads; ++i) {
      BOOST_OUTCOME_TRY(session, server.store->NewSession());
      Scheduler& scheduler = design_.research ? static_cast<ShermanSession&>(*session).scheduler()
                                              : static_cast<OpenSession&>(*session).scheduler();
      network_.SetOwner(scheduler.endpoint(), session.get());
      server.threads.push_back({std::move(session), &scheduler});
    }
    return server;
  }

  // Puts records in random order, so that leaves are as full as in the long run. A separate compute
  // server loads.
  Status Load() {
    constexpr uint32_t kAtATime = 64;
    BOOST_OUTCOME_TRY(loader, OpenComputeServer(options_.compute_servers + 1, 1));
    Session& session = *loader.threads.front().session;
    uint64_t next_id = 0;
    for (uint32_t i = 0; i < kAtATime; ++i) session.Spawn(PutRecords(session, next_id));
    session.WaitAll();
    return error_ ? Status(*error_) : Ok();
  }

  // One of the coroutines that load.
  Task<void> PutRecords(Session& session, uint64_t& next_id) {
    bench::KeyBuffer buffer;
    const std::string value(kValueBytes, 'v');
    while (next_id < options_.records && !error_) {
      const std::string_view key = codec_.Encode(next_id++, buffer);
      const Status put = co_await session.AsyncPut(key, value);
      if (!put) error_ = put.error();
    }
  }

  // Fills the cache as in a long-running compute server.
  static Status WarmUp(Session& session) {
    const std::unique_ptr<ScanCursor> cursor = session.Scan({});
    while (cursor->Next()) {
    }
    return cursor->status();
  }

  void SpawnAll() {
    uint32_t stream = 0;
    for (const ComputeServer& server : compute_) {
      for (const Thread& thread : server.threads) {
        for (uint32_t i = 0; i < options_.coroutines; ++i) {
          thread.session->Spawn(Work(*thread.session, stream++));
        }
      }
    }
  }

  Task<void> Work(Session& session, uint32_t stream) {
    bench::OperationStream operations(WorkloadOf(options_), options_.theta, options_.seed, stream,
                                      ids_);
    bench::KeyBuffer buffer;
    std::array<char, kValueBytes> value{};
    for (uint64_t round = 0; !is_over_; ++round) {
      const bench::DrawnOperation operation = operations.Next();
      const std::string_view key = codec_.Encode(operation.id, buffer);
      const Clock::time_point start = network_.Now();
      if (operation.kind == BenchOperation::kRead) {
        const Result<std::string> found = co_await session.AsyncGet(key);
        if (!found) co_return Fail(found.error());
      } else {
        bench::FillValue(operation.id, round, value);
        const Status written = co_await session.AsyncUpdate(key, {value.data(), value.size()});
        if (!written) co_return Fail(written.error());
      }
      if (!is_measuring_) continue;
      Histogram& latencies =
          operation.kind == BenchOperation::kRead ? result_.read_ns : result_.update_ns;
      latencies.Record(NanosecondsOf(network_.Now() - start));
    }
  }

  void Fail(const Error& error) {
    if (!error_) error_ = error;
    is_over_ = true;
  }

  void RunUntil(Clock::time_point end) {
    while (!is_over_ && network_.Now() < end && Step()) {
    }
  }

  // Finishes the operations under way.
  void Finish() {
    is_over_ = true;
    const auto is_idle = [this] {
      for (const ComputeServer& server : compute_) {
        for (const Thread& thread : server.threads) {
          if (thread.scheduler->running() != 0) return false;
        }
      }
      return true;
    };
    while (!is_idle() && Step()) {
    }
  }

  // Returns false if no event is left.
  bool Step() {
    Endpoint* const endpoint = network_.RunUntilRunnable();
    if (endpoint == nullptr) return false;
    auto* const session = static_cast<Session*>(network_.Owner(*endpoint));
    if (session != nullptr) {
      session->Poll();
    } else {
      endpoint->Poll();
    }
    return true;
  }

  Counters SumOfCounters() const {
    Counters sum;
    for (const ComputeServer& server : compute_) {
      for (const Thread& thread : server.threads) sum += thread.session->counters();
    }
    return sum;
  }

  const MeasureOptions options_;
  const MeasuredDesign design_;
  const bench::KeyCodec codec_{kKeyBytes};
  SimNetwork network_;
  StoreRecord record_;
  bench::RecordIds ids_;
  Measurement result_;
  std::optional<Error> error_;
  bool is_measuring_ = false;
  bool is_over_ = false;
  std::vector<std::unique_ptr<EmbeddedMemory>> memory_;
  std::vector<ComputeServer> compute_;  // destroyed before the memory
};

template <typename Value>
void Vary(std::vector<PlannedMeasurement>& plan, std::string_view part,
          const MeasureOptions& options, Value MeasureOptions::* member,
          std::initializer_list<Value> values) {
  for (const Value value : values) {
    for (const MeasuredDesign& design : kCompared) {
      plan.push_back({part, options, design});
      plan.back().options.*member = value;
    }
  }
}

Status CheckRange(std::string_view flag, uint64_t value, uint64_t least, uint64_t most) {
  if (value >= least && value <= most) return Ok();
  return MakeError(Code::kInvalidArgument,
                   fmt::format("--{}={}: give {} to {}", flag, value, least, most));
}

}  // namespace

std::span<const MeasuredDesign> DesignLadder() { return kLadder; }

double Measurement::PerUpdate(uint64_t count) const {
  return update_ns.count() == 0
             ? 0
             : static_cast<double>(count) / static_cast<double>(update_ns.count());
}

Status Validate(const MeasureOptions& options) {
  BOOST_OUTCOME_TRYV(CheckRange("servers", options.memory_servers, 1, 16));
  BOOST_OUTCOME_TRYV(CheckRange("clients", options.compute_servers, 1, 64));
  BOOST_OUTCOME_TRYV(CheckRange("threads", options.threads, 1, 64));
  BOOST_OUTCOME_TRYV(CheckRange("coroutines", options.coroutines, 1, 64));
  BOOST_OUTCOME_TRYV(CheckRange("records", options.records, 1, 100'000'000));
  BOOST_OUTCOME_TRYV(CheckRange("ranks", options.ranks, 1, 1'000'000'000'000));
  BOOST_OUTCOME_TRYV(CheckRange("update_percent", options.update_percent, 0, 100));
  BOOST_OUTCOME_TRYV(CheckRange("milliseconds", options.milliseconds, 1, 10'000));
  if (!(options.theta > 0 && options.theta < 1)) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("--theta={:f}: give a number above 0 and below 1", options.theta));
  }
  return Ok();
}

Result<Measurement> Measure(const MeasureOptions& options, const MeasuredDesign& design) {
  return std::make_unique<Bench>(options, design)->Do();
}

Result<std::vector<PlannedMeasurement>> PlanMeasurements(std::string_view what,
                                                         const MeasureOptions& options) {
  std::vector<PlannedMeasurement> plan;
  const auto is_wanted = [what](std::string_view part) { return what == part || what == "all"; };
  const auto add_ladder = [&plan](std::string_view part, const MeasureOptions& load) {
    for (const MeasuredDesign& design : kLadder) plan.push_back({part, load, design});
  };
  MeasureOptions large = options;
  large.compute_servers = 8;
  large.threads = 22;
  if (is_wanted("techniques")) add_ladder("techniques", options);
  if (is_wanted("large")) add_ladder("large", large);
  if (is_wanted("ranks")) {
    MeasureOptions steeper = options;
    steeper.ranks = options.records;
    add_ladder("ranks", steeper);
  }
  if (is_wanted("one_by_one")) {
    plan.push_back({"one_by_one", options, kNaive});
    for (const MeasuredDesign& design : kOneByOne) plan.push_back({"one_by_one", options, design});
    plan.push_back({"one_by_one", options, kSherman});
  }
  if (is_wanted("release")) {
    for (const MeasureOptions& load : {options, large}) {
      for (const MeasuredDesign& design : kReleasedByCas) plan.push_back({"release", load, design});
    }
  }
  if (is_wanted("threads")) {
    Vary(plan, "threads", options, &MeasureOptions::threads, {1u, 2u, 4u, 8u, 16u, 22u});
  }
  if (is_wanted("coroutines")) {
    Vary(plan, "coroutines", options, &MeasureOptions::coroutines, {2u, 4u, 8u});
  }
  if (is_wanted("theta")) {
    Vary(plan, "theta", options, &MeasureOptions::theta, {0.5, 0.8, 0.9, 0.95, 0.99});
  }
  if (!plan.empty()) return plan;
  return MakeError(Code::kInvalidArgument, "--measure=" + std::string(what) +
                                               ": give techniques, large, ranks, one_by_one, "
                                               "release, threads, coroutines, theta or all");
}

}  // namespace gossamer::simulator
