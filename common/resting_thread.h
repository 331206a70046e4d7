// RestingThread: a thread that works now and then, until its owner stops it.
//
// Thread-safety: one thread calls Start and Stop; the body calls Rest.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "common/start_thread.h"
#include "common/status.h"

namespace gossamer {

class RestingThread {
 public:
  RestingThread() = default;
  ~RestingThread() { Stop(); }
  RestingThread(const RestingThread&) = delete;
  RestingThread& operator=(const RestingThread&) = delete;

  // Runs `body` once. It returns soon after Rest has returned false. `purpose` and errors: as of
  // StartThread.
  template <typename Body>
  Status Start(const std::string& purpose, Body body) {
    BOOST_OUTCOME_TRY(thread, StartThread(purpose, std::move(body)));
    thread_ = std::move(thread);
    return Ok();
  }

  // Wakes the body from its rest and waits for its end. It may be called again.
  void Stop() {
    {
      const std::lock_guard guard(mutex_);
      is_stopping_ = true;
    }
    stopped_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  // Waits. Returns false if it is time to end.
  bool Rest(std::chrono::nanoseconds time) {
    std::unique_lock lock(mutex_);
    return !stopped_.wait_for(lock, time, [this] { return is_stopping_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool is_stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace gossamer
