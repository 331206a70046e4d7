#include "compute/sim/audit.h"

#include <algorithm>
#include <cstring>

#include "common/human.h"
#include "proto/lock_word.h"

namespace gossamer::simulator {
namespace {

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
                const std::vector<std::unique_ptr<Client>>& clients) {
  for (const auto& [server, word] : locks) {
    const auto holder = std::find_if(
        clients.begin(), clients.end(), [&, at = server, held = word](const auto& client) {
          return !client->is_dead() && !client->is_lost() && client->IsHolder(at, held);
        });
    const std::string lock = "a lock of server " + std::to_string(ToInteger(server)) + ", node " +
                             std::to_string(word.node()) + ", is left held by ";
    if (holder != clients.end()) {
      scene.verdict.Wrong(lock + "client " + std::to_string((*holder)->number()) +
                          ", which lives and does nothing");
    } else if (!scene.verdict.may_die()) {
      scene.verdict.Wrong(lock + "nobody");
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

Status LookAround(Scene& scene, const std::vector<std::unique_ptr<Client>>& clients,
                  uint32_t number, RunCounts& counts) {
  constexpr uint64_t kCacheBytes = 1 << 20;
  Client auditor(scene, number, {1, 1, kCacheBytes});
  BOOST_OUTCOME_TRYV(auditor.Open());
  const uint64_t present = auditor.ReadAll();
  Tree& tree = auditor.session().tree();
  BOOST_OUTCOME_TRY(locks, tree.scheduler().Run(ReadLocks(tree)));
  BOOST_OUTCOME_TRY(report, auditor.store().Check({}));
  JudgeLocks(scene, locks, clients);
  JudgeTree(scene, report, present);
  counts.levels += report.levels;
  counts.keys += report.keys;
  counts.leaves += report.leaves;
  counts.missing_downlinks += report.missing_downlinks;
  return Ok();
}

}  // namespace

void Audit(Scene& scene, const std::vector<std::unique_ptr<Client>>& clients, uint32_t number,
           RunCounts& counts) {
  const Status looked = LookAround(scene, clients, number, counts);
  if (!looked) scene.verdict.Wrong("the last check fails: " + looked.error().ToString());
  const history::HistoryReport history = CheckHistory(scene.recorder.events());
  for (const std::string& problem : history.problems) scene.verdict.Wrong(problem);
  counts.history_events += history.events;
  counts.undecided_keys += history.undecided_keys;
}

}  // namespace gossamer::simulator
