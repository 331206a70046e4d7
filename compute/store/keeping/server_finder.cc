#include "compute/store/keeping/server_finder.h"

#include <utility>

#include "common/start_thread.h"

namespace gossamer {
namespace {

// New servers are not looked for more often: full stores may stay full.
constexpr std::chrono::milliseconds kLookInterval{500};

}  // namespace

SearchState ServerFinder::Find(ServerSearch& search) {
  if (!uses_thread_) {
    search.found = learn_(search.server, search.gone);
    return SearchState::kEnded;
  }
  const std::lock_guard guard(mutex_);
  const Status started =
      is_stopping_ ? Status(MakeError(Code::kNodeUnreachable, "the store closes")) : StartRunning();
  if (!started) {
    search.found = MakeError(Code::kNodeUnreachable, started.error().message);
    return SearchState::kEnded;
  }
  searches_.push_back(&search);
  changed_.notify_one();
  return SearchState::kGoesOn;
}

Status ServerFinder::StartRunning() {
  if (thread_.joinable()) return Ok();
  BOOST_OUTCOME_TRY(thread, StartThread("find memory servers", [this] { Run(); }));
  thread_ = std::move(thread);
  return Ok();
}

void ServerFinder::LookForNew() {
  if (!uses_thread_) return;
  const std::lock_guard guard(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (is_stopping_ || now < next_look_ || !StartRunning()) return;
  next_look_ = now + kLookInterval;
  looks_for_new_ = true;
  changed_.notify_one();
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
    changed_.wait(lock, [this] { return is_stopping_ || looks_for_new_ || !searches_.empty(); });
    if (searches_.empty()) {
      if (is_stopping_) return;
      looks_for_new_ = false;
      lock.unlock();
      learn_new_();
      lock.lock();
      continue;
    }
    ServerSearch& search = *searches_.front();
    searches_.pop_front();
    lock.unlock();
    search.found = learn_(search.server, search.gone);
    Scheduler::Wake(search);  // the search may be gone afterwards
    lock.lock();
  }
}

}  // namespace gossamer
