// OpenStore: repairs what was lost with memory servers that the store's record does not name any
// more.
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "common/bootstrap/requests.h"
#include "compute/rules/rules.h"
#include "compute/store/keeping/sweeper.h"
#include "compute/store/open_store.h"

namespace gossamer {
namespace {

constexpr int kMostLooks = 8;

// The servers that the store had and the record does not name any more. Errors: NodeUnreachable if
// they may still come back with their saved files.
Result<std::set<ServerId>> LostServersOf(const StoreRecord& record) {
  const Status are_back = CheckNoneAwaited(record);
  if (!are_back) {
    return MakeError(are_back.error().code, "nothing was repaired: " + are_back.error().message);
  }
  std::set<ServerId> lost;
  for (uint16_t id = 0; id < record.next_server; ++id) {
    if (record.Find(ServerId{id}) == nullptr) lost.insert(ServerId{id});
  }
  return lost;
}

}  // namespace

Result<std::set<ServerId>> OpenStore::FindLostServers() {
  if (bootstrap_ == nullptr) return std::set<ServerId>();
  for (int again = kMostLooks; again > 0; --again) {
    // A record that was lost and put back may lack servers that live.
    BOOST_OUTCOME_TRY(wait, LearnServers());
    if (wait != std::chrono::milliseconds(0)) {
      std::this_thread::sleep_for(wait);
      continue;
    }
    BOOST_OUTCOME_TRY(record, FindStore(*bootstrap_, {.store = record_.store}));
    if (record.store_id != record_.store_id) {
      return MakeError(Code::kNodeUnreachable, "another store has the name '" + record_.store +
                                                   "' now: open the store again");
    }
    {
      const std::lock_guard lock(learn_mutex_);
      if (record.restored != restored_) continue;  // it was lost meanwhile
    }
    return LostServersOf(record);
  }
  return MakeError(Code::kContended,
                   "the store's record is lost again and again: repair once that has settled");
}

Result<RepairReport> OpenStore::Repair(bool dry_run,
                                       const std::function<bool(uint64_t nodes)>& progress) {
  BOOST_OUTCOME_TRY(lost, FindLostServers());
  BOOST_OUTCOME_TRY(endpoint, port_->NewEndpoint());
  Scheduler scheduler(*endpoint);
  return scheduler.Run(RepairOver(scheduler, {std::move(lost), dry_run, progress}));
}

Task<Result<RepairReport>> OpenStore::RepairOver(Scheduler& scheduler,
                                                 LossRepairer::Options options) {
  for (const ServerId server : options.lost) shared_->servers.NoteLeft(server);
  Tree tree(*shared_, scheduler);
  const bool changes = !options.dry_run && !options.lost.empty();
  LossRepairer repairer(tree.context(), std::move(options));
  if (!changes) co_return co_await repairer.Run();
  Sweeper epochs(
      *shared_, scheduler, {}, [this] { keeper_->Hurry(); }, [this] { return LearnServers(); });
  // Until then a cache may lead to nodes that only lost ones name (rule P4).
  Status passed = Ok();
  if (rules::AwaitsEpochBeforeRepair()) passed = co_await epochs.PassEpoch();
  if (!passed) {
    co_return MakeError(passed.error().code, "nothing was repaired: " + passed.error().message);
  }
  Result<RepairReport> report = co_await repairer.Run();
  if (!report || report.value().was_stopped) co_return report;
  // Until then one leads to lost nodes.
  passed = co_await epochs.PassEpoch();
  if (passed) co_return report;
  co_return MakeError(passed.error().code,
                      "the tree is repaired, but others may still go by what they knew before: " +
                          passed.error().message);
}

}  // namespace gossamer
