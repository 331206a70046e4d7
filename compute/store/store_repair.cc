// OpenStore: repairs what was lost with memory servers that the store's record does not name any more.
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "compute/store/open_store.h"
#include "compute/store/sweeper.h"

namespace gossamer {
namespace {

constexpr int kMostLooks = 8;

}  // namespace

Result<std::set<ServerId>> OpenStore::FindLostServers() {
  std::set<ServerId> lost;
  if (bootstrap_ == nullptr) return lost;
  for (int again = kMostLooks; again > 0; --again) {
    // A record that was lost and put back may lack servers that live.
    BOOST_OUTCOME_TRY(wait, LearnServers());
    if (wait != std::chrono::milliseconds(0)) {
      std::this_thread::sleep_for(wait);
      continue;
    }
    FindOptions find;
    find.store = record_.store;
    BOOST_OUTCOME_TRY(record, FindStore(*bootstrap_, find));
    if (record.store_id != record_.store_id) {
      return MakeError(Code::kNodeUnreachable, "another store has the name '" + record_.store +
                                                   "' now: open the store again");
    }
    {
      const std::lock_guard lock(learn_mutex_);
      if (record.restored != restored_) continue;  // it was lost meanwhile
    }
    for (uint16_t id = 0; id < record.next_server; ++id) {
      if (record.Find(ServerId{id}) == nullptr) lost.insert(ServerId{id});
    }
    return lost;
  }
  return MakeError(Code::kContended,
                   "the store's record is lost again and again: repair once that has settled");
}

Result<RepairReport> OpenStore::Repair(bool dry_run,
                                       const std::function<bool(uint64_t nodes)>& progress) {
  BOOST_OUTCOME_TRY(lost, FindLostServers());
  BOOST_OUTCOME_TRY(endpoint, port_->NewEndpoint());
  Scheduler scheduler(*endpoint);
  Tree tree(*shared_, scheduler);
  BOOST_OUTCOME_TRY(report, scheduler.Run(tree.RepairLosses({lost, dry_run, progress})));
  if (dry_run || report.was_stopped || lost.empty()) return report;
  // Caches of compute servers lead to lost nodes until then.
  Sweeper epochs(
      *shared_, scheduler, {}, [this] { keeper_->Hurry(); }, [this] { return LearnServers(); });
  const Status passed = scheduler.Run(epochs.PassEpoch());
  if (passed) return report;
  return MakeError(passed.error().code,
                   "the tree is repaired, but others may still go by what they knew before: " +
                       passed.error().message);
}

}  // namespace gossamer
