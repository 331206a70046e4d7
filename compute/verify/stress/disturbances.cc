#include "compute/verify/stress/disturbances.h"

#include <algorithm>
#include <csignal>
#include <iostream>
#include <thread>
#include <utility>

#include "common/text/human.h"
#include "compute/verify/stress/now.h"

namespace gossamer::stress {
namespace {

using Clock = std::chrono::steady_clock;

// docs/bootstrap.md: how soon a record lost in memcached is back; plus an allowance for a busy
// machine.
constexpr std::chrono::nanoseconds kRecordIsBack = std::chrono::seconds(3);
constexpr std::chrono::nanoseconds kBusyMachine = std::chrono::seconds(2);
// How long a store leaves out a memory server that was silent at open, for a timeout of 2 s.
constexpr std::chrono::nanoseconds kStoreAsksAgain = std::chrono::seconds(8);
constexpr uint64_t kLongestLossMs = 500;
// A memory server that joins while the record is lost may be asked to start again.
constexpr int kMostStarts = 5;

}  // namespace

Disturbances::Disturbances(const StressOptions& options, Cluster& cluster, const RunBoard& board,
                           FailureLog failures, std::vector<Fault>& faults, Findings& findings)
    : options_(options),
      cluster_(cluster),
      board_(board),
      failures_(std::move(failures)),
      faults_(faults),
      findings_(findings),
      random_(options.seed, ~uint64_t{2}) {
  open_ = options.Opening(cluster.bootstrap());
  kills_.total = options.kills;
  flushes_.total = options.flushes;
  stops_.total = options.stops;
  returns_.total = options.returns;
}

void Disturbances::BeginPart(uint64_t part, uint64_t parts) {
  for (Quota* quota : {&kills_, &flushes_, &stops_, &returns_}) {
    quota->due = quota->total * part / parts;
    quota->begun_with = quota->done;
  }
}

void Disturbances::CountKills(const Clients& clients) { kills_.done = clients.kills(); }

bool Disturbances::has_more(const Clients& clients) const {
  return clients.kills() < kills_.due || flushes_.left() + stops_.left() + returns_.left() != 0;
}

uint32_t Disturbances::permille(const Clients& clients) const {
  uint64_t done = clients.kills() - kills_.begun_with + 1;
  uint64_t due = std::max(kills_.due, kills_.begun_with) - kills_.begun_with + 1;
  for (const Quota* quota : {&flushes_, &stops_, &returns_}) {
    done += quota->done - quota->begun_with;
    due += std::max(quota->due, quota->begun_with) - quota->begun_with;
  }
  return static_cast<uint32_t>(std::min<uint64_t>(1000, 1000 * done / due));
}

void Disturbances::Pause() {
  std::this_thread::sleep_for(
      std::chrono::microseconds(random_.Below(uint64_t{options_.kill_ms} * 1000)));
}

Status Disturbances::Next(Clients& clients) {
  Pause();
  clients.Poll();
  CountKills(clients);
  const uint64_t kills = clients.is_used_up() ? 0 : kills_.left();
  const uint64_t all = kills + flushes_.left() + stops_.left() + returns_.left();
  if (all == 0) return Ok();
  const uint64_t dice = random_.Below(all);
  if (dice < kills) {
    clients.KillOne(board_);
  } else if (dice < kills + flushes_.left()) {
    return LoseRecord(clients, true);
  } else if (dice < kills + flushes_.left() + returns_.left()) {
    return ReturnServer(clients);
  } else {
    StopServer(clients);
  }
  return Ok();
}

Status Disturbances::NextMild(Clients& clients) {
  Pause();
  clients.Poll();
  CountKills(clients);
  if (kills_.left() != 0 && !clients.is_used_up()) clients.KillOne(board_, true);
  return Ok();
}

void Disturbances::Flush() {
  if (flushes_.left() == 0) return;
  ++flushes_.done;
  Fault fault;
  fault.kind = FaultKind::kFlush;
  fault.from = NowNs();
  if (!cluster_.Flush()) findings_.Wrong("memcached cannot be flushed");
  fault.until = NowNs() + (kRecordIsBack + kBusyMachine).count();
  faults_.push_back(fault);
}

Status Disturbances::LoseRecord(Clients& clients, bool may_add_server) {
  if (random_.Below(4) != 0) {
    Flush();
  } else {
    ++flushes_.done;
    Fault fault;
    fault.kind = FaultKind::kMemcachedRestart;
    fault.from = NowNs();
    fault.until = history::kNever;
    const size_t index = faults_.size();
    faults_.push_back(fault);
    const std::chrono::milliseconds absence(random_.Below(kLongestLossMs));
    if (!cluster_.RestartMemcached(absence)) findings_.Wrong("memcached does not start again");
    faults_[index].back = NowNs();
    faults_[index].until = NowNs() + (kRecordIsBack + kBusyMachine).count();
  }
  const size_t index = faults_.size() - 1;
  // A new client does not find the record.
  if (kills_.left() != 0 && !clients.is_used_up()) clients.KillOne(board_, true);
  // A server that starts waits for the record by itself.
  const bool adds_server = may_add_server && !has_guest_ && random_.Below(3) == 0;
  if (adds_server) {
    BOOST_OUTCOME_TRYV(AddGuest());
  }
  AwaitRecord(index, adds_server
                         ? std::nullopt
                         : std::optional(std::max(faults_[index].from, faults_[index].back)));
  return Ok();
}

Status Disturbances::AddGuest() {
  Status started = Ok();
  for (int attempt = 0; attempt < kMostStarts; ++attempt) {
    started = cluster_.StartServer(cluster_.guest_place());
    has_guest_ = started.has_value();
    const bool is_to_try_again =
        !started && started.error().message.find("start it again") != std::string::npos;
    if (!is_to_try_again) break;
  }
  if (has_guest_) ++guests_;
  return started;
}

void Disturbances::AwaitRecord(size_t fault, std::optional<int64_t> since) {
  for (;;) {
    const int64_t start = NowNs();
    const Result<std::unique_ptr<Store>> store = Store::Open(open_);
    if (store) {
      const Result<StoreStat> stat = store.value()->Stat();
      if (stat && stat.value().store_id != board_.store_of[board_.era]) {
        findings_.Wrong("there is a second store");
      }
      findings_.Require(stat ? Status(Ok()) : Status(stat.error()), "stat");
      const std::chrono::nanoseconds absence(since ? NowNs() - *since : 0);
      longest_absence_ = std::max(longest_absence_, absence);
      return;
    }
    findings_.Require(
        failures_.Append(MakeFailedCall(Call::kOpen, kPreloader, start, NowNs(), store.error())),
        "errors");
    if (NowNs() > faults_[fault].until) {
      return findings_.Wrong("a store whose record was lost is not found again in time");
    }
    std::this_thread::sleep_for(kTryAgain);
  }
}

void Disturbances::StopServer(Clients& clients) {
  ++stops_.done;
  Fault fault;
  fault.kind = FaultKind::kStop;
  fault.server = static_cast<uint32_t>(random_.Below(options_.servers));
  fault.from = NowNs();
  cluster_.Signal(*fault.server, SIGSTOP);
  const auto until = Clock::now() + std::chrono::milliseconds(1 + random_.Below(options_.stop_ms));
  // A new client finds a server that does not answer, or holds a lock of one that died.
  CountKills(clients);
  if (kills_.left() != 0 && !clients.is_used_up()) clients.KillOne(board_, true);
  while (Clock::now() < until) {
    clients.Poll();
    std::this_thread::sleep_for(kTryAgain);
  }
  cluster_.Signal(*fault.server, SIGCONT);
  fault.back = NowNs();
  fault.until = fault.back + (kStoreAsksAgain + kBusyMachine).count();
  faults_.push_back(fault);
}

// On a slow machine, clients would find a server only between two kills, if at all, and wait for it
// longer than they promise.
void Disturbances::AwaitProgress(Clients& clients) {
  const auto until = Clock::now() + std::chrono::milliseconds(options_.reconnect_ms);
  const int64_t since = NowNs();
  while (!clients.HaveWorkedOn(since, board_) && clients.Poll() != 0 && Clock::now() < until) {
    std::this_thread::sleep_for(kTryAgain);
  }
}

Status Disturbances::ReturnServer(Clients& clients) {
  ++returns_.done;
  Fault fault;
  fault.kind = FaultKind::kReturn;
  fault.leaves_doubt = options_.fabric != "shm";
  const auto server = static_cast<uint32_t>(random_.Below(options_.servers));
  fault.server = server;
  fault.from = NowNs();
  fault.until = history::kNever;
  const size_t index = faults_.size();
  faults_.push_back(fault);
  BOOST_OUTCOME_TRYV(cluster_.End(server, SIGKILL));
  faults_[index].gone = NowNs();
  // A client dies while the server is away, and perhaps another one while it starts.
  CountKills(clients);
  if (kills_.left() != 0 && !clients.is_used_up() && random_.Below(2) == 0) {
    clients.KillOne(board_, true);
  }
  const auto until =
      Clock::now() + std::chrono::milliseconds(1 + random_.Below(options_.absence_ms));
  while (Clock::now() < until) {
    clients.Poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const int64_t start = NowNs();
  BOOST_OUTCOME_TRYV(cluster_.StartServer(server));
  faults_[index].back = NowNs();
  longest_start_ = std::max(longest_start_, std::chrono::nanoseconds(NowNs() - start));
  faults_[index].until = faults_[index].back + kBusyMachine.count();
  // Every second time, another one is killed while clients may still look for this one.
  may_overlap_ = !may_overlap_;
  if (may_overlap_) AwaitProgress(clients);
  return Ok();
}

void Disturbances::Judge(Findings& findings) const {
  for (const Quota* quota : {&flushes_, &stops_, &returns_}) {
    if (quota->done < quota->total) {
      findings.Wrong("there was no time for all flushes, stops or returns");
    }
  }
  if (returns_.total != 0) {
    std::cout << "returns     " << HumanQuantity(returns_.done, "memory server")
              << " killed; each served again at most "
              << HumanDuration(std::chrono::duration<double>(longest_start_).count())
              << " after its start\n";
  }
  if (flushes_.total == 0) return;
  std::cout << "memcached   forgot " << HumanQuantity(flushes_.done, "time")
            << "; the store was found again after at most "
            << HumanDuration(std::chrono::duration<double>(longest_absence_).count()) << "; "
            << HumanQuantity(guests_, "memory server") << " joined meanwhile\n";
}

}  // namespace gossamer::stress
