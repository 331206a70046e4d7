#include "compute/stress/run.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <thread>

#include "common/human.h"
#include "common/progress.h"
#include "common/testing/child_process.h"
#include "compute/stress/client.h"
#include "compute/stress/cluster.h"

namespace gossamer::stress {
namespace {

using Clock = std::chrono::steady_clock;

// How long clients have to end once they were told to, and how long the last things may take.
constexpr std::chrono::seconds kPatience{60};

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The run's own directory: logs, the board, the bootstrap. Taken away at the end.
class RunDirectory {
 public:
  RunDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "gossamer-stress-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;
  ~RunDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// What is wrong with the run, told as soon as it is known.
class Verdict {
 public:
  void Wrong(const std::string& what) {
    good_ = false;
    std::cout << "WRONG: " << what << "\n" << std::flush;
  }
  void Require(const Status& status, const std::string& what) {
    if (!status) Wrong(what + ": " + status.error().ToString());
  }
  bool good() const { return good_; }

 private:
  bool good_ = true;
};

Status Preload(Store& store, const StressOptions& options) {
  const KeySpace keys = options.keys();
  const ValueSpace values = options.values();
  std::vector<KeyValue> pairs;
  for (uint32_t key = 0; key < keys.size(); ++key) {
    if (!KeySpace::IsStable(key)) continue;
    pairs.push_back({keys.Text(key), values.Bytes(MakeValueId(key, kPreloader, 1))});
  }
  BOOST_OUTCOME_TRY(session, store.NewSession());
  for (const Status& status : session->MultiPut(pairs)) {
    BOOST_OUTCOME_TRYV(status);
  }
  return Ok();
}

// Nobody writes any more: one get of each hot key closes its history. Returns how many are there.
Result<uint64_t> ReadAll(Store& store, const StressOptions& options, std::vector<Event>& events) {
  const KeySpace keys = options.keys();
  const ValueSpace values = options.values();
  std::vector<std::string> texts;
  texts.reserve(keys.hot_keys());
  for (uint32_t i = 0; i < keys.hot_keys(); ++i) texts.push_back(keys.Text(KeySpace::HotKey(i)));
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  BOOST_OUTCOME_TRY(session, store.NewSession());
  const int64_t start = Clock::now().time_since_epoch().count();
  const std::vector<Result<std::string>> found = session->MultiGet(views);
  const int64_t end = Clock::now().time_since_epoch().count();
  uint64_t present = 0;
  for (uint32_t i = 0; i < keys.hot_keys(); ++i) {
    Event event{kAbsent,       start, end, KeySpace::HotKey(i), kPreloader, OperationKind::kGet,
                Outcome::kDone};
    if (!found[i] && found[i].error().code != Code::kNotFound) return found[i].error();
    if (found[i]) {
      const std::optional<ValueId> id = values.Id(found[i].value());
      if (!id) return MakeError(Code::kCorruption, "a key ends with a value that nobody wrote");
      event.value = *id;
      ++present;
    }
    events.push_back(event);
  }
  return present;
}

void CheckTree(Store& store, uint64_t expected_keys, Verdict& verdict) {
  const Result<CheckReport> checked = store.Check({});
  if (!checked) return verdict.Wrong("check: " + checked.error().ToString());
  const CheckReport& report = checked.value();
  for (const std::string& problem : report.problems) verdict.Wrong("check: " + problem);
  if (report.problem_count != 0) {
    verdict.Wrong("check: " + HumanQuantity(report.problem_count, "problem"));
  }
  if (report.locks_held != 0) verdict.Wrong(HumanQuantity(report.locks_held, "lock") + " left");
  if (report.keys != expected_keys) {
    verdict.Wrong("check counts " + HumanCount(report.keys) + " keys, gets find " +
                  HumanCount(expected_keys));
  }
  std::cout << "check       " << HumanQuantity(report.keys, "key") << ", "
            << HumanQuantity(report.blocks, "value block") << ", " << report.leaves << " leaves, "
            << HumanQuantity(report.internal_nodes, "internal node") << ", "
            << HumanQuantity(report.levels, "level") << ", "
            << HumanQuantity(report.missing_downlinks, "missing downlink") << "; "
            << HumanQuantity(report.problem_count, "problem") << ", "
            << HumanQuantity(report.locks_held, "lock") << " left, "
            << HumanCount(report.locks_of_the_dead) << " of the dead\n";
}

// Logs, last reads, check: everything that is known once the clients have ended.
void Judge(Store& store, const StressOptions& options, const std::string& directory,
           RunBoard& board, double run_seconds, Verdict& verdict) {
  const Clock::time_point start = Clock::now();
  uint64_t operations = 0, contended = 0, violations = 0, scanned = 0, splits = 0, rereads = 0,
           retries = 0, stale = 0;
  int64_t longest = 0;
  for (const ClientReport& client : board.clients) {
    operations += client.operations;
    contended += client.contended;
    violations += client.violations;
    scanned += client.scanned_keys;
    splits += client.splits;
    rereads += client.rereads;
    retries += client.lock_retries;
    stale += client.stale_paths;
    longest = std::max<int64_t>(longest, client.longest_ns);
  }
  std::cout << "run         " << HumanQuantity(operations, "operation") << " in "
            << HumanDuration(run_seconds) << ", "
            << HumanRate(static_cast<double>(operations) / run_seconds) << "; "
            << HumanQuantity(scanned, "key") << " scanned, " << HumanQuantity(splits, "split")
            << ", " << HumanQuantity(rereads, "reread") << ", "
            << HumanQuantity(retries, "lock retry", "lock retries") << ", "
            << HumanQuantity(stale, "stale path") << ", " << HumanCount(contended)
            << " contended, longest operation "
            << HumanDuration(static_cast<double>(longest) * 1e-9) << "\n"
            << std::flush;
  if (violations != 0) {
    verdict.Wrong("clients saw " + HumanQuantity(violations, "violation") + " (above)");
  }
  if (options.kills == 0 && operations != options.operations) {
    verdict.Wrong("only " + HumanCount(operations) + " of " + HumanCount(options.operations) +
                  " operations were done");
  }
  // A client that is stopped keeps its locks; others may give up only if that is for longer than they wait.
  if (contended != 0 && options.pause_ms < options.lock_timeout_ms) {
    verdict.Wrong(HumanQuantity(contended, "operation") + " found a lock that stayed taken for " +
                  std::to_string(options.lock_timeout_ms) + " ms");
  }

  std::vector<Event> events;
  for (uint32_t writer = 0; writer < options.lives() * options.threads; ++writer) {
    const Status read = ReadHistory(HistoryPath(directory, writer), events);
    // Who was killed early has none.
    if (!read && options.kills != 0 && read.error().code == Code::kNotFound) continue;
    verdict.Require(read, "history");
  }
  const Result<uint64_t> present = ReadAll(store, options, events);
  if (!present) return verdict.Wrong("last reads: " + present.error().ToString());
  const HistoryReport history = CheckHistory(events);
  for (const std::string& problem : history.problems) verdict.Wrong(problem);
  if (history.problem_count != 0) {
    verdict.Wrong(HumanQuantity(history.problem_count, "key") + " of " + HumanCount(history.keys) +
                  " with an impossible history");
  }
  // A key that could not be decided is no proof of anything; there are hardly ever any.
  if (history.undecided_keys > history.keys / 100) {
    verdict.Wrong(HumanQuantity(history.undecided_keys, "key") + " could not be decided");
  }
  std::cout << "history     " << HumanQuantity(history.events, "event") << " on "
            << HumanQuantity(history.keys, "key")
            << " checked: " << HumanQuantity(history.problem_count, "key") << " wrong, "
            << HumanCount(history.undecided_keys) << " undecided\n";
  CheckTree(store, present.value() + options.keys().stable_keys(), verdict);
  std::cout << "            in " << HumanDuration(SecondsSince(start)) << "\n";
}

uint64_t OperationsDone(const RunBoard& board) {
  uint64_t done = 0;
  for (const ClientReport& client : board.clients) done += client.operations;
  return done;
}

// The clients of a cluster while they run.
class Clients {
 public:
  Clients(const StressOptions& options, const std::string& directory, const std::string& bootstrap,
          const std::vector<std::string>& command)
      : options_(options), random_(options.seed, ~uint64_t{0}) {
    command_ = command;
    command_.push_back("--client_bootstrap=" + bootstrap);
    command_.push_back("--client_directory=" + directory);
    for (uint32_t i = 0; i < options.clients; ++i) processes_.push_back(NewClient());
  }

  // Until all have ended, or been told to and not done so.
  void Wait(RunBoard& board) {
    const Clock::time_point start = Clock::now();
    Progress progress(
        options_.kills == 0
            ? ProgressOptions{.verb = "stressing",
                              .unit = "operations",
                              .total = options_.operations}
            : ProgressOptions{.verb = "killing", .unit = "clients", .total = options_.kills});
    size_t running = processes_.size();
    while (running != 0) {
      running = 0;
      for (const auto& process : processes_) running += process->Poll(0) ? 1 : 0;
      if (options_.kills != 0 && kills_ == options_.kills && SurvivorsWork(board))
        board.stop = true;
      progress.Update(options_.kills == 0 ? OperationsDone(board) : kills_);
      const double seconds = SecondsSince(start);
      if (seconds > options_.max_seconds) board.stop = true;
      if (seconds > options_.max_seconds + static_cast<double>(kPatience.count())) break;
      if (kills_ < options_.kills && next_number_ == options_.lives()) board.stop = true;
      if (kills_ < options_.kills && !board.stop) {
        KillOne(board);
      } else if (options_.pause_ms != 0) {
        PauseOne();
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    }
  }

  void Judge(Verdict& verdict) {
    for (size_t i = 0; i < processes_.size(); ++i) {
      const int status = processes_[i]->Wait(kPatience);
      std::cout << processes_[i]->standard_output() << processes_[i]->standard_error();
      if (status != 0) {
        verdict.Wrong("client " + std::to_string(i) + " ended with status " +
                      std::to_string(status));
      }
    }
    if (pauses_ != 0) {
      std::cout << "pauses      " << HumanQuantity(pauses_, "time")
                << " a client was stopped, for at most " << options_.pause_ms << " ms\n";
    }
    if (options_.kills != 0) {
      std::cout << "kills       " << kills_ << " of " << options_.kills << " clients at work, and "
                << killed_early_ << " that had not done anything yet\n";
      if (kills_ != options_.kills)
        verdict.Wrong("there was no time for all kills, or too few clients came to work");
    }
  }

 private:
  struct Client {
    uint32_t number;
    std::unique_ptr<testing::ChildProcess> process;
    testing::ChildProcess* operator->() const { return process.get(); }
  };

  Client NewClient() {
    const uint32_t number = next_number_++;
    std::vector<std::string> arguments = command_;
    arguments.push_back("--client=" + std::to_string(number));
    return {number, std::make_unique<testing::ChildProcess>(BoundToParent(std::move(arguments)))};
  }

  // Kills one client wherever it is, and starts another.
  void KillOne(RunBoard& board) {
    std::this_thread::sleep_for(
        std::chrono::microseconds(random_.Below(uint64_t{options_.kill_ms} * 1000)));
    Client& client = processes_[random_.Below(processes_.size())];
    if (!client->Poll(0)) return;  // It has ended by itself, which will be told.
    client->Signal(SIGKILL);
    client->Wait();
    // What it said before is said.
    std::cout << client->standard_output() << client->standard_error();
    const bool at_work = board.clients[client.number].operations != 0;
    ++(at_work ? kills_ : killed_early_);
    board.kills = kills_;
    client = NewClient();
  }

  // Those that were started last have come so far as to show that they can.
  bool SurvivorsWork(const RunBoard& board) const {
    constexpr uint64_t kEnough = 200;
    return std::all_of(processes_.begin(), processes_.end(), [&](const Client& client) {
      return board.clients[client.number].operations >= kEnough;
    });
  }

  // Stops one client wherever it is, and lets it go on a moment later. Half as long as the time between them.
  void PauseOne() {
    const auto& process = processes_[random_.Below(processes_.size())];
    if (process->Poll(0)) {
      process->Signal(SIGSTOP);
      ++pauses_;
      std::this_thread::sleep_for(
          std::chrono::microseconds(random_.Below(uint64_t{options_.pause_ms} * 1000)));
      process->Signal(SIGCONT);
    }
    std::this_thread::sleep_for(
        std::chrono::microseconds(random_.Below(uint64_t{options_.pause_ms} * 2000)));
  }

  const StressOptions& options_;
  Random random_;
  std::vector<std::string> command_;
  std::vector<Client> processes_;
  uint32_t next_number_ = 0;
  uint64_t pauses_ = 0;
  uint32_t kills_ = 0;
  uint32_t killed_early_ = 0;
};

void PrintPlan(const StressOptions& options, const std::string& where) {
  std::cout << "store       " << where << ", " << options.parameters.node_bytes << " B nodes\n"
            << "clients     " << HumanQuantity(options.clients, "client") << " × "
            << HumanQuantity(options.threads, "thread") << " × "
            << HumanQuantity(options.coroutines, "coroutine") << ", "
            << HumanQuantity(options.operations, "operation") << " on "
            << HumanQuantity(options.hot_keys, "hot key")
            << (options.kills == 0 ? "" : ", " + HumanQuantity(options.kills, "kill"))
            << "; --seed=" << options.seed << "\n"
            << std::flush;
}

bool Conclude(const Verdict& verdict, const StressOptions& options) {
  std::cout << (verdict.good() ? "PASSED" : "FAILED") << " --seed=" << options.seed << "\n";
  return verdict.good();
}

}  // namespace

bool RunCluster(const StressOptions& options, const std::vector<std::string>& client_command) {
  Verdict verdict;
  PrintPlan(options, HumanQuantity(options.servers, "memory server") + " on " + options.fabric +
                         ", bootstrap " + options.bootstrap);
  const RunDirectory directory;
  const Status run = [&]() -> Status {
    BOOST_OUTCOME_TRY(board, SharedBoard::Open(directory.path()));
    BOOST_OUTCOME_TRY(cluster, Cluster::Start(options, directory.path()));
    OpenOptions open;
    open.bootstrap = cluster->bootstrap();
    open.fabric = options.fabric;
    open.device = options.device;
    {
      BOOST_OUTCOME_TRY(store, Store::Open(open));
      BOOST_OUTCOME_TRYV(Preload(*store, options));
      const Clock::time_point start = Clock::now();
      Clients clients(options, directory.path(), cluster->bootstrap(), client_command);
      clients.Wait(*board.operator->());
      const double seconds = SecondsSince(start);
      clients.Judge(verdict);
      Judge(*store, options, directory.path(), *board.operator->(), seconds, verdict);
    }
    return cluster->Stop();
  }();
  verdict.Require(run, "the run");
  return Conclude(verdict, options);
}

bool RunLocal(const StressOptions& options) {
  Verdict verdict;
  PrintPlan(options, "in this process");
  const RunDirectory directory;
  const Status run = [&]() -> Status {
    BOOST_OUTCOME_TRY(board, SharedBoard::Open(directory.path()));
    RunBoard& shared = *board.operator->();
    LocalOptions local;
    local.parameters = options.parameters;
    local.cache_bytes = options.cache_bytes;
    local.lock_timeout_ms = options.lock_timeout_ms;
    BOOST_OUTCOME_TRY(store, Store::OpenLocal(local));
    BOOST_OUTCOME_TRYV(Preload(*store, options));
    const Clock::time_point start = Clock::now();
    std::atomic<uint32_t> running = options.clients;
    std::vector<std::thread> clients;
    std::vector<Status> results(options.clients, Ok());
    clients.reserve(options.clients);
    for (uint32_t client = 0; client < options.clients; ++client) {
      clients.emplace_back([&, client] {
        results[client] = RunThreads(options, client, *store, directory.path(), shared);
        --running;
      });
    }
    Progress progress({.verb = "stressing", .unit = "operations", .total = options.operations});
    while (running != 0) {
      progress.Update(OperationsDone(shared));
      if (SecondsSince(start) > options.max_seconds) shared.stop = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    progress.Finish();
    for (std::thread& client : clients) client.join();
    for (const Status& result : results) verdict.Require(result, "a client");
    Judge(*store, options, directory.path(), shared, SecondsSince(start), verdict);
    return Ok();
  }();
  verdict.Require(run, "the run");
  return Conclude(verdict, options);
}

}  // namespace gossamer::stress
