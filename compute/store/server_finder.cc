#include "compute/store/server_finder.h"

#include <utility>

#include "common/start_thread.h"

namespace gossamer {

SearchState ServerFinder::Find(ServerSearch& search) {
  if (!uses_thread_) {
    search.found = find_(search.server);
    return SearchState::kEnded;
  }
  const std::lock_guard guard(mutex_);
  if (!thread_.joinable()) {
    Result<std::thread> started = StartThread("find memory servers", [this] { Run(); });
    if (!started) {
      search.found = MakeError(Code::kNodeUnreachable, started.error().message);
      return SearchState::kEnded;
    }
    thread_ = std::move(started.value());
  }
  searches_.push_back(&search);
  changed_.notify_one();
  return SearchState::kGoesOn;
}

void ServerFinder::Stop() {
  {
    const std::lock_guard guard(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void ServerFinder::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_stopping_ || !searches_.empty(); });
    if (searches_.empty()) return;
    ServerSearch& search = *searches_.front();
    searches_.pop_front();
    lock.unlock();
    search.found = find_(search.server);
    Scheduler::Wake(search);  // the search may be gone afterwards
    lock.lock();
  }
}

}  // namespace gossamer
