#include "compute/verify/stress/run.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <thread>

#include "common/text/human.h"
#include "common/text/progress.h"
#include "compute/verify/stress/campaign.h"
#include "compute/verify/stress/client.h"
#include "compute/verify/stress/clients.h"
#include "compute/verify/stress/cluster.h"
#include "compute/verify/stress/findings.h"
#include "compute/verify/stress/judge.h"
#include "compute/verify/stress/now.h"

namespace gossamer::stress {
namespace {

using Clock = std::chrono::steady_clock;

// The run's own directory: logs, the board, the bootstrap. Removed at the end.
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

// Waits until all clients have done their operations and ended, or failed to end in time.
void AwaitClients(const StressOptions& options, Clients& clients, RunBoard& board) {
  const Clock::time_point start = Clock::now();
  Progress progress({.verb = "stressing", .unit = "operations", .total = options.operations});
  while (clients.Poll() != 0) {
    progress.Update(OperationsDone(board));
    const double seconds = SecondsSince(start);
    if (seconds > options.max_seconds) board.stop = true;
    if (seconds > options.max_seconds + static_cast<double>(kPatience.count())) break;
    if (options.pause_ms != 0) {
      clients.PauseOne();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
}

Status RunOperations(const StressOptions& options, const std::string& directory,
                     const Cluster& cluster, RunBoard& board,
                     const std::vector<std::string>& client_command, Findings& findings) {
  OpenOptions open = options.Opening(cluster.bootstrap());
  BOOST_OUTCOME_TRY(store, Store::Open(open));
  BOOST_OUTCOME_TRYV(Preload(*store, options, 0));
  const Clock::time_point start = Clock::now();
  Clients clients(options, directory, cluster.bootstrap(), client_command);
  AwaitClients(options, clients, board);
  const double seconds = SecondsSince(start);
  clients.Judge(findings);
  JudgeReports(options, board, seconds, findings);
  JudgeFailures(options, directory, {}, findings);
  JudgeEra(*store, options, directory, 0, true, findings);
  return Ok();
}

void PrintPlan(const StressOptions& options, const std::string& where) {
  std::cout << "store       " << where << ", " << options.parameters.node_bytes << " B nodes\n"
            << "clients     " << HumanQuantity(options.clients, "client") << " × "
            << HumanQuantity(options.threads, "thread") << " × "
            << HumanQuantity(options.coroutines, "coroutine") << " on "
            << HumanQuantity(options.hot_keys, "hot key") << "\n"
            << "run         ";
  if (options.is_campaign()) {
    std::cout << HumanQuantity(options.kills, "kill") << ", "
              << HumanQuantity(options.restarts, "restart") << ", "
              << HumanQuantity(options.returns, "return") << ", "
              << HumanQuantity(options.flushes, "flush", "flushes") << ", "
              << HumanQuantity(options.stops, "stop") << (options.reopen ? ", reopening" : "")
              << (options.loss_ms == 0 ? "" : ", losing connections");
  } else {
    std::cout << HumanQuantity(options.operations, "operation");
  }
  std::cout << "; --seed=" << options.seed << "\n" << std::flush;
}

bool Conclude(const Findings& findings, const StressOptions& options) {
  std::cout << (findings.good() ? "PASSED" : "FAILED") << " --seed=" << options.seed << "\n";
  return findings.good();
}

}  // namespace

bool RunCluster(const StressOptions& options, const std::vector<std::string>& client_command) {
  Findings findings;
  PrintPlan(options, HumanQuantity(options.servers, "memory server") + " on " + options.fabric +
                         ", bootstrap " + options.bootstrap);
  const RunDirectory directory;
  const Status run = [&]() -> Status {
    BOOST_OUTCOME_TRY(board, SharedBoard::Open(directory.path()));
    BOOST_OUTCOME_TRY(cluster, Cluster::Start(options, directory.path()));
    if (options.is_campaign()) {
      // This process's log follows those of the clients.
      BOOST_OUTCOME_TRY(failures, FailureLog::Open(FailurePath(directory.path(), options.lives())));
      Campaign campaign(options, directory.path(), *cluster, *board, std::move(failures), findings);
      BOOST_OUTCOME_TRYV(campaign.Run(client_command));
    } else {
      BOOST_OUTCOME_TRYV(
          RunOperations(options, directory.path(), *cluster, *board, client_command, findings));
    }
    return cluster->Stop();
  }();
  findings.Require(run, "the run");
  return Conclude(findings, options);
}

bool RunLocal(const StressOptions& options) {
  Findings findings;
  PrintPlan(options, "in this process");
  const RunDirectory directory;
  const Status run = [&]() -> Status {
    BOOST_OUTCOME_TRY(board, SharedBoard::Open(directory.path()));
    RunBoard& shared = *board;
    LocalOptions local;
    local.parameters = options.parameters;
    local.cache_bytes = options.cache_bytes;
    local.lock_timeout_ms = options.lock_timeout_ms;
    BOOST_OUTCOME_TRY(opened, Store::OpenLocal(local));
    std::shared_ptr<Store> store = std::move(opened);
    BOOST_OUTCOME_TRYV(Preload(*store, options, 0));
    const Clock::time_point start = Clock::now();
    std::atomic<uint32_t> running = options.clients;
    std::vector<std::thread> clients;
    std::vector<Status> results(options.clients, Ok());
    clients.reserve(options.clients);
    for (uint32_t client = 0; client < options.clients; ++client) {
      clients.emplace_back([&, client] {
        results[client] = RunThreads(
            options, client, 0, [&store] { return std::shared_ptr<Store>(store); },
            directory.path(), shared);
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
    for (const Status& result : results) findings.Require(result, "a client");
    JudgeReports(options, shared, SecondsSince(start), findings);
    JudgeFailures(options, directory.path(), {}, findings);
    JudgeEra(*store, options, directory.path(), 0, true, findings);
    return Ok();
  }();
  findings.Require(run, "the run");
  return Conclude(findings, options);
}

}  // namespace gossamer::stress
