#include "compute/gateway/large_sweeper.h"

#include <glog/logging.h>

#include <cassert>
#include <utility>

#include "compute/gateway/worker/large_records.h"

namespace gossamer::gateway {
namespace {

Task<void> RunSweep(Session& session, std::string turn, Expiry until, std::function<bool()> goes_on,
                    Result<LargeSweep>& result) {
  const Status taken = co_await session.AsyncInsert(turn, {}, until);
  if (taken) {
    result = co_await SweepLarge(session, std::move(goes_on));
  } else if (taken.error().code != Code::kAlreadyExists) {
    result = taken.error();
  }
}

}  // namespace

Result<std::unique_ptr<LargeSweeper>> LargeSweeper::Start(Store& store,
                                                          std::chrono::milliseconds after) {
  assert(after.count() > 0);
  std::unique_ptr<LargeSweeper> sweeper(new LargeSweeper(after));
  BOOST_OUTCOME_TRY(session, store.NewSession());
  sweeper->session_ = std::move(session);
  BOOST_OUTCOME_TRYV(sweeper->thread_.Start("large", [&own = *sweeper] { own.Run(); }));
  return sweeper;
}

void LargeSweeper::Run() {
  std::string last_failure;
  while (thread_.Rest(after_)) {
    const Status status = Sweep();
    const std::string failure = status ? std::string() : status.error().message;
    if (!status) failures_.fetch_add(1, std::memory_order_relaxed);
    // The same one is told once, until a sweep ends well.
    if (std::exchange(last_failure, failure) != failure && !status) {
      LOG(WARNING) << "large hashes that are gone keep their memory for now: " << failure;
    }
  }
}

Status LargeSweeper::Sweep() {
  Result<LargeSweep> result = LargeSweep();
  const auto goes_on = [this] { return thread_.Rest(std::chrono::nanoseconds(0)); };
  // Others do not begin before this one has come to its next turn.
  session_->Spawn(RunSweep(*session_, RecordKeyOf(0), Expiry::After(after_), goes_on, result));
  session_->WaitAll();
  if (!result) return result.error();
  items_.fetch_add(result.value().items, std::memory_order_relaxed);
  return Ok();
}

void LargeSweeper::AddTo(Families& families) const {
  families.Counter("gossamer_large_items_collected_total",
                   "Items of large hashes and sets that were gone, deleted by this compute server.",
                   items());
  families.Counter("gossamer_large_sweep_failures_total",
                   "Sweeps for such items that have ended with an error.",
                   failures_.load(std::memory_order_relaxed));
}

}  // namespace gossamer::gateway
