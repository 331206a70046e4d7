#include "compute/verify/stress/campaign.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <thread>

#include "common/text/human.h"
#include "compute/verify/stress/connection_losses.h"
#include "compute/verify/stress/judge.h"
#include "compute/verify/stress/now.h"

namespace gossamer::stress {
namespace {

constexpr std::chrono::milliseconds kLook{20};
constexpr uint64_t kLongestAbsenceMs = 300;
// The era of values that belong to no era.
constexpr uint32_t kStranger = RunBoard::kMaxEras - 1;

}  // namespace

Campaign::Campaign(const StressOptions& options, const std::string& directory, Cluster& cluster,
                   RunBoard& board, FailureLog failures, Findings& findings)
    : options_(options),
      directory_(directory),
      cluster_(cluster),
      board_(board),
      findings_(findings),
      random_(options.seed, ~uint64_t{1}),
      disturbances_(options, cluster, board, std::move(failures), faults_, findings) {
  open_ = options.Opening(cluster.bootstrap());
}

bool Campaign::is_late() const {
  return Clock::now() - began_ > std::chrono::seconds(options_.max_seconds);
}

int Campaign::SomeEnd() { return random_.Below(2) == 0 ? SIGKILL : SIGTERM; }

Result<std::unique_ptr<Store>> Campaign::BeginStore(uint32_t era) {
  BOOST_OUTCOME_TRY(store, Store::Open(open_));
  BOOST_OUTCOME_TRY(stat, store->Stat());
  for (uint32_t before = 0; before < era; ++before) {
    if (board_.store_of[before] == stat.store_id) {
      return MakeError(Code::kCorruption,
                       "a memory server that was started anew has the store of "
                       "the one before");
    }
  }
  board_.store_of[era] = stat.store_id;
  BOOST_OUTCOME_TRYV(Preload(*store, options_, era));
  return store;
}

Status Campaign::Run(const std::vector<std::string>& client_command) {
  BOOST_OUTCOME_TRY(first, BeginStore(0));
  store_ = std::move(first);
  Clients clients(options_, directory_, cluster_.bootstrap(), client_command);
  for (;;) {
    BOOST_OUTCOME_TRYV(Disturb(clients));
    if (restarts_ >= options_.restarts || is_late()) break;
    const bool has_other = options_.servers > 1 && restarts_ + 2 <= options_.restarts;
    if (has_other && random_.Below(2) == 0) {
      const auto other = static_cast<uint32_t>(1 + random_.Below(options_.servers - 1));
      BOOST_OUTCOME_TRYV(RestartOther(clients, other));
    }
    BOOST_OUTCOME_TRYV(RestartRoot(clients));
  }
  while (!clients.SurvivorsWork(board_) && clients.Poll() != 0 && !is_late()) {
    std::this_thread::sleep_for(kLook);
  }
  board_.stop = true;
  clients.Judge(findings_);
  const std::chrono::duration<double> seconds = Clock::now() - began_;
  disturbances_.Judge(findings_);
  JudgeReports(options_, board_, seconds.count(), findings_);
  JudgeEra(*store_, options_, directory_, era_, true, findings_);
  if (restarts_ < options_.restarts) findings_.Wrong("there was no time for all restarts");
  for (uint32_t client = 0; client < options_.lives(); ++client) {
    ReadLosses(LossesPath(directory_, client), client, faults_);
  }
  JudgeFailures(options_, directory_, faults_, findings_);
  return Ok();
}

Status Campaign::Disturb(Clients& clients) {
  const Clock::time_point start = Clock::now();
  // An era with few disturbances must last for some time too.
  const std::chrono::milliseconds least(10 * options_.kill_ms);
  disturbances_.BeginPart(restarts_ + 1, uint64_t{options_.restarts} + 1);
  while (!is_late() && (options_.kills == 0 || !clients.is_used_up())) {
    const bool is_old = Clock::now() - start >= least && clients.SurvivorsWork(board_);
    if (!disturbances_.has_more(clients) && is_old) break;
    board_.progress_permille = disturbances_.permille(clients);
    BOOST_OUTCOME_TRYV(disturbances_.Next(clients));
  }
  return Ok();
}

// Half of the clients may be killed meanwhile. Their replacements find another store and wait for
// its era.
Status Campaign::Witness(Clients& clients) {
  const Clock::time_point until = Clock::now() + std::chrono::milliseconds(options_.witness_ms);
  const uint32_t most_kills = clients.kills() + options_.clients / 2;
  while (Clock::now() < until) {
    if (clients.kills() < most_kills) {
      BOOST_OUTCOME_TRYV(disturbances_.NextMild(clients));
    } else {
      clients.Poll();
      std::this_thread::sleep_for(kLook);
    }
  }
  return Ok();
}

Status Campaign::RestartOther(Clients& clients, uint32_t place) {
  ++restarts_;
  const int end = SomeEnd();
  Fault fault;
  fault.kind = FaultKind::kRestart;
  fault.server = place;
  fault.from = NowNs();
  fault.until = history::kNever;
  faults_.push_back(fault);
  BOOST_OUTCOME_TRYV(cluster_.End(place, end));
  faults_.back().gone = NowNs();
  std::this_thread::sleep_for(std::chrono::milliseconds(random_.Below(kLongestAbsenceMs)));
  // A stopped server has left the store, so another may join. A killed server is still in the
  // record, and all servers refuse to join.
  const Status joined = cluster_.StartServer(place);
  if (end == SIGTERM) {
    BOOST_OUTCOME_TRYV(joined);
  } else if (joined) {
    return MakeError(Code::kCorruption, "a memory server joins a store of which one is dead");
  } else {
    BOOST_OUTCOME_TRYV(StartStranger(place));
  }
  faults_.back().back = NowNs();
  return Witness(clients);
}

Status Campaign::StartStranger(uint32_t place) {
  OpenOptions open = open_;
  open.store = fmt::format("stranger-{}", era_);
  BOOST_OUTCOME_TRYV(cluster_.StartServer(place, open.store));
  BOOST_OUTCOME_TRY(stranger, Store::Open(open));
  stranger_ = std::move(stranger);
  return Preload(*stranger_, options_, kStranger);
}

void Campaign::CheckUntouched(Store& store, const std::string& name) {
  const Result<CheckReport> checked = store.Check({});
  if (!checked) return findings_.Wrong(name + ": " + checked.error().ToString());
  const CheckReport& report = checked.value();
  if (report.problem_count != 0) findings_.Wrong(name + ": " + report.problems.front());
  const uint32_t expected = options_.keys().stable_keys();
  if (report.keys == expected) return;
  findings_.Wrong(name + " has " + HumanCount(report.keys) + " keys, and got " +
                  HumanCount(expected) + ": somebody took it for the one before");
}

Status Campaign::RestartRoot(Clients& clients) {
  ++restarts_;
  Fault fault;
  fault.kind = FaultKind::kRestart;
  fault.server = 0;
  fault.from = NowNs();
  fault.until = history::kNever;
  faults_.push_back(fault);
  BOOST_OUTCOME_TRYV(cluster_.End(0, SomeEnd()));
  faults_.back().gone = NowNs();
  std::this_thread::sleep_for(std::chrono::milliseconds(random_.Below(kLongestAbsenceMs)));
  BOOST_OUTCOME_TRYV(cluster_.StartServer(0));
  faults_.back().back = NowNs();
  BOOST_OUTCOME_TRY(next, BeginStore(era_ + 1));
  BOOST_OUTCOME_TRYV(Witness(clients));
  CheckUntouched(*next, "the store at the address of the one before");
  if (stranger_ != nullptr) CheckUntouched(*stranger_, "a stranger's store");
  stranger_ = nullptr;

  board_.progress_permille = 0;
  board_.era = era_ + 1;
  BOOST_OUTCOME_TRYV(AwaitEra(clients));
  for (Fault& each : faults_) each.until = std::min(each.until, NowNs());
  JudgeEra(*store_, options_, directory_, era_, false, findings_);
  ++era_;
  store_ = std::move(next);
  // No client uses the rest of the previous store any more. Clients work while others join.
  if (disturbances_.has_guest()) {
    BOOST_OUTCOME_TRYV(cluster_.End(cluster_.guest_place(), SomeEnd()));
    disturbances_.GuestHasLeft();
  }
  for (uint32_t place = 1; place < options_.servers; ++place) {
    BOOST_OUTCOME_TRYV(cluster_.End(place, SomeEnd()));
    BOOST_OUTCOME_TRYV(cluster_.StartServer(place));
  }
  return Ok();
}

Status Campaign::AwaitEra(Clients& clients) {
  const Clock::time_point deadline = Clock::now() + kPatience;
  while (!clients.HaveReached(era_ + 1, board_)) {
    if (clients.Poll() == 0 || Clock::now() > deadline) {
      return MakeError(Code::kContended, "clients do not leave a store whose server is gone");
    }
    std::this_thread::sleep_for(kLook);
  }
  return Ok();
}

}  // namespace gossamer::stress
