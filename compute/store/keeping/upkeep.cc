#include "compute/store/keeping/upkeep.h"

#include <glog/logging.h>

#include <chrono>
#include <utility>

#include "common/start_thread.h"
#include "compute/tree/tree.h"

namespace gossamer {
namespace {

constexpr std::chrono::milliseconds kLongestStop{100};

}  // namespace

void Upkeep::Wake() {
  const std::lock_guard lock(mutex_);
  has_news_ = true;
  if (is_closing_) return;
  if (!thread_.joinable()) {
    Result<std::thread> thread = StartThread("merge nodes", [this] { Run(); });
    if (!thread) {
      LOG_FIRST_N(WARNING, 1) << "memory of deleted entries is not given back: "
                              << thread.error().ToString();
      return;
    }
    thread_ = std::move(thread.value());
  }
  wake_.notify_one();
}

void Upkeep::Stop() {
  std::unique_lock lock(mutex_);
  is_closing_ = true;
  if (!thread_.joinable()) return;
  wake_.notify_all();
  wake_.wait_for(lock, kLongestStop, [this] { return has_ended_; });
  stopping_ = true;
  lock.unlock();
  thread_.join();
}

Task<void> Upkeep::Work(MergeQueue& merges, Tree& tree, const std::atomic<bool>& stopping) {
  while (!stopping) {
    const std::optional<MergeQueue::Request> request = merges.Take();
    if (!request) co_return;
    co_await tree.merger().Run(*request);
  }
}

void Upkeep::Run() {
  std::unique_ptr<OpenSession> session;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return has_news_ || is_closing_; });
      if (stopping_ || (is_closing_ && !has_news_)) {
        has_ended_ = true;
        wake_.notify_all();
        return;
      }
      has_news_ = false;
    }
    if (session == nullptr) {
      Result<std::unique_ptr<OpenSession>> opened = new_session_();
      if (!opened) {
        LOG(WARNING) << "nodes are not merged now: " << opened.error().ToString();
        while (merges_.Take()) {
        }
        continue;
      }
      session = std::move(opened.value());
    }
    session->Spawn(Work(merges_, session->tree(), stopping_));
    session->WaitAll();
  }
}

}  // namespace gossamer
