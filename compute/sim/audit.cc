#include "compute/sim/audit.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "common/human.h"
#include "proto/lock_word.h"

namespace gossamer::simulator {
namespace {

// Where connections break, an audit may be cut short so many times.
constexpr int kAttempts = 50;

using HeldLocks = std::vector<std::pair<ServerId, LockWord>>;

// The lock words of all servers that are not 0.
Task<Result<HeldLocks>> ReadLocks(Tree& tree) {
  constexpr uint64_t kBytesAtOnce = 4096;
  Endpoint& endpoint = tree.scheduler().endpoint();
  HeldLocks locks;
  Result<BufferLease> buffer = endpoint.buffers().Allocate(kBytesAtOnce);
  if (!buffer) co_return buffer.error();
  for (const ServerInfo* server : tree.shared().servers.All()) {
    for (uint64_t at = 0; at < server->lock_table_bytes; at += kBytesAtOnce) {
      const uint64_t bytes = std::min(kBytesAtOnce, server->lock_table_bytes - at);
      InlineBatch<1> batch(server->id);
      batch.Add(Verb::Read(at, static_cast<uint32_t>(bytes), buffer.value().address(),
                           Space::kLockTable));
      co_await endpoint.Execute(batch);
      if (batch.status() != VerbStatus::kSuccess) {
        co_return MakeError(Code::kNodeUnreachable, "the lock table cannot be read");
      }
      for (uint64_t word = 0; word < bytes; word += sizeof(uint64_t)) {
        uint64_t value = 0;
        std::memcpy(&value, buffer.value().data() + word, sizeof value);
        if (value != 0) locks.emplace_back(server->id, LockWord::FromWord(value));
      }
    }
  }
  co_return locks;
}

// All is quiet: whoever lives holds nothing.
void JudgeLocks(const Scene& scene, const HeldLocks& locks,
                const std::vector<std::unique_ptr<Client>>& living) {
  for (const auto& [server, word] : locks) {
    const auto holder = std::find_if(
        living.begin(), living.end(), [&, at = server, held = word](const auto& client) {
          return !client->is_dead() && !client->is_lost() && client->IsHolder(at, held);
        });
    const std::string lock = "a lock of server " + std::to_string(ToInteger(server)) + ", node " +
                             std::to_string(word.node()) + ", is left held by ";
    if (holder != living.end()) {
      scene.verdict.Wrong(lock + "client " + std::to_string((*holder)->number()) +
                          ", which lives and does nothing");
    } else if (!scene.verdict.IsExplained(Code::kContended)) {
      scene.verdict.Wrong(lock + "nobody who lives");
    }
  }
}

void JudgeTree(const Scene& scene, const CheckReport& report, uint64_t present) {
  const uint64_t problems = report.problem_count - report.locks_held;
  if (problems != 0) {
    scene.verdict.Wrong("check: " + HumanQuantity(problems, "problem"));
    for (const std::string& problem : report.problems) scene.verdict.Wrong("check: " + problem);
  }
  if (report.keys != present) {
    scene.verdict.Wrong("check counts " + std::to_string(report.keys) + " keys, gets find " +
                        std::to_string(present));
  }
}

// Once, with a client of its own. False: its connection broke, as the run's faults explain.
Result<bool> LookAround(Scene& scene, const std::vector<std::unique_ptr<Client>>& living,
                        uint32_t number, RunCounts& counts) {
  constexpr uint64_t kCacheBytes = 1 << 20;
  Client auditor(scene, number, {1, 1, kCacheBytes});
  const auto retry = [&](const Error& error) -> Result<bool> {
    if (error.code == Code::kNodeUnreachable && scene.verdict.IsExplained(error.code)) return false;
    return error;
  };
  const Status opened = auditor.Open();
  if (!opened) return retry(opened.error());
  const uint64_t present = auditor.ReadAll();
  if (auditor.is_lost()) return false;
  Tree& tree = auditor.session().tree();
  const Result<HeldLocks> locks = tree.scheduler().Run(ReadLocks(tree));
  if (!locks) return retry(locks.error());
  const Result<CheckReport> report = auditor.store().Check({});
  if (!report) return retry(report.error());
  JudgeLocks(scene, locks.value(), living);
  JudgeTree(scene, report.value(), present);
  counts.levels += report.value().levels;
  counts.keys += report.value().keys;
  counts.leaves += report.value().leaves;
  counts.missing_downlinks += report.value().missing_downlinks;
  return true;
}

}  // namespace

void Audit(Scene& scene, const std::vector<std::unique_ptr<Client>>& living, uint32_t& next_client,
           RunCounts& counts) {
  Result<bool> done = false;
  for (int attempt = 0; attempt < kAttempts && done && !done.value(); ++attempt) {
    done = LookAround(scene, living, next_client++, counts);
  }
  if (!done) {
    scene.verdict.Wrong("the last check fails: " + done.error().ToString());
  } else if (!done.value()) {
    scene.verdict.Wrong("the last check loses its connection " + std::to_string(kAttempts) +
                        " times");
  }
  const history::HistoryReport history = CheckHistory(scene.recorder.events());
  for (const std::string& problem : history.problems) scene.verdict.Wrong(problem);
  counts.history_events += history.events;
  counts.undecided_keys += history.undecided_keys;
}

}  // namespace gossamer::simulator
