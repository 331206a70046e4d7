#include "compute/metrics/store_watch.h"

#include <utility>

#include "common/start_thread.h"
#include "compute/metrics/store_state.h"

namespace gossamer {

Result<std::unique_ptr<StoreWatch>> StoreWatch::Start(Store& store) {
  std::unique_ptr<StoreWatch> watch(new StoreWatch(store));
  BOOST_OUTCOME_TRY(thread, StartThread("describe the store", [&watch = *watch] { watch.Run(); }));
  watch->thread_ = std::move(thread);
  return watch;
}

StoreWatch::~StoreWatch() {
  {
    const std::lock_guard guard(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

nlohmann::ordered_json StoreWatch::State() {
  const std::lock_guard guard(mutex_);
  if (!std::exchange(is_asked_for_, true)) changed_.notify_all();
  return state_;
}

void StoreWatch::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait_for(lock, kIdleInterval - kInterval,
                      [this] { return is_asked_for_ || is_stopping_; });
    if (is_stopping_) return;
    lock.unlock();
    const Result<StoreStat> stat = store_.Stat();
    nlohmann::ordered_json state = stat ? StatState(stat.value()) : nlohmann::ordered_json();
    lock.lock();
    // Without the memory server that has the root nothing is known: what was known before says more.
    if (stat) state_ = std::move(state);
    is_asked_for_ = false;
    if (changed_.wait_for(lock, kInterval, [this] { return is_stopping_; })) return;
  }
}

}  // namespace gossamer
