#include "compute/verify/stress/judge.h"

#include <fmt/core.h>

#include <chrono>
#include <iostream>
#include <optional>
#include <vector>

#include "common/text/human.h"
#include "compute/verify/stress/client.h"
#include "compute/verify/stress/now.h"

namespace gossamer::stress {
namespace {

using Clock = std::chrono::steady_clock;

// No client writes any more: one get of each hot key closes its history. Returns how many keys
// exist. Skips unreachable keys unless `is_whole`.
Result<uint64_t> ReadAll(Store& store, const StressOptions& options, bool is_whole,
                         std::vector<Event>& events) {
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
    const bool is_lost = !found[i] && found[i].error().code == Code::kNodeUnreachable;
    if (is_lost && !is_whole) continue;
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

void CheckTree(Store& store, uint64_t expected_keys, Findings& findings) {
  const Result<CheckReport> checked = store.Check({});
  if (!checked) return findings.Wrong("check: " + checked.error().ToString());
  const CheckReport& report = checked.value();
  for (const std::string& problem : report.problems) findings.Wrong("check: " + problem);
  if (report.problem_count != 0) {
    findings.Wrong("check: " + HumanQuantity(report.problem_count, "problem"));
  }
  if (report.locks_held != 0) findings.Wrong(HumanQuantity(report.locks_held, "lock") + " left");
  if (report.keys != expected_keys) {
    findings.Wrong("check counts " + HumanCount(report.keys) + " keys, gets find " +
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

}  // namespace

Status Preload(Store& store, const StressOptions& options, uint32_t era) {
  const KeySpace keys = options.keys();
  const ValueSpace values = options.values();
  std::vector<KeyValue> pairs;
  for (uint32_t key = 0; key < keys.size(); ++key) {
    if (!KeySpace::IsStable(key)) continue;
    pairs.push_back({keys.Text(key), values.Bytes(StableValue(key, era))});
  }
  BOOST_OUTCOME_TRY(session, store.NewSession());
  for (const Status& status : session->MultiPut(pairs)) {
    BOOST_OUTCOME_TRYV(status);
  }
  return Ok();
}

void JudgeReports(const StressOptions& options, const RunBoard& board, double run_seconds,
                  Findings& findings) {
  uint64_t operations = 0, contended = 0, violations = 0, scanned = 0, splits = 0, rereads = 0,
           retries = 0, stale = 0, stores = 0, sessions = 0;
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
    stores += client.stores;
    sessions += client.sessions;
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
            << "opened      " << HumanQuantity(stores, "store") << ", "
            << HumanQuantity(sessions, "session") << "\n"
            << std::flush;
  if (violations != 0) {
    findings.Wrong("clients saw " + HumanQuantity(violations, "violation") + " (above)");
  }
  if (!options.is_campaign() && operations != options.operations) {
    findings.Wrong("only " + HumanCount(operations) + " of " + HumanCount(options.operations) +
                   " operations were done");
  }
  // A stopped client keeps its locks. Others may give up only if it is stopped longer than they
  // wait.
  if (contended != 0 && options.pause_ms < options.lock_timeout_ms) {
    findings.Wrong(fmt::format("{} found a lock that stayed taken for {} ms",
                               HumanQuantity(contended, "operation"), options.lock_timeout_ms));
  }
}

void JudgeFailures(const StressOptions& options, const std::string& directory,
                   std::span<const Fault> faults, Findings& findings) {
  std::vector<FailedCall> failures;
  for (uint32_t client = 0; client <= options.lives(); ++client) {
    findings.Require(ReadFailures(FailurePath(directory, client), failures), "errors");
  }
  FaultTable table;
  table.Judge(faults, failures);
  std::cout << table.ToString();
  for (const std::string& example : table.examples()) {
    findings.Wrong("no fault explains: " + example);
  }
  if (table.unexplained() != 0) {
    findings.Wrong(HumanQuantity(table.unexplained(), "error") + " that no fault explains");
  }
}

void JudgeEra(Store& store, const StressOptions& options, const std::string& directory,
              uint32_t era, bool is_whole, Findings& findings) {
  const Clock::time_point start = Clock::now();
  std::vector<Event> events;
  for (uint32_t writer = 0; writer < options.lives() * options.threads; ++writer) {
    const Status read = ReadHistory(HistoryPath(directory, era, writer), events);
    // A client that did not work in this era has no history.
    if (!read && options.is_campaign() && read.error().code == Code::kNotFound) continue;
    findings.Require(read, "history");
  }
  const Result<uint64_t> present = ReadAll(store, options, is_whole, events);
  if (!present) return findings.Wrong("last reads: " + present.error().ToString());
  const HistoryReport history = CheckHistory(events);
  for (const std::string& problem : history.problems) findings.Wrong(problem);
  if (history.problem_count != 0) {
    findings.Wrong(HumanQuantity(history.problem_count, "key") + " of " + HumanCount(history.keys) +
                   " with an impossible history");
  }
  // An undecided key proves nothing; there are hardly any.
  if (history.undecided_keys > history.keys / 100) {
    findings.Wrong(HumanQuantity(history.undecided_keys, "key") + " could not be decided");
  }
  std::cout << "history     " << HumanQuantity(history.events, "event") << " on "
            << HumanQuantity(history.keys, "key")
            << " checked: " << HumanQuantity(history.problem_count, "key") << " wrong, "
            << HumanCount(history.undecided_keys) << " undecided\n";
  if (is_whole) CheckTree(store, present.value() + options.keys().stable_keys(), findings);
  std::cout << "            in " << HumanDuration(SecondsSince(start)) << "\n" << std::flush;
}

}  // namespace gossamer::stress
