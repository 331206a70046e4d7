// Tasks on a pool of threads, and the wait for all of them.
#pragma once

#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cassert>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "common/status.h"

namespace gossamer::lab {

// The threads start with the first call of `Start`. They and the queue are those of Boost.Asio: one
// queue for all threads.
//
// Thread-safety: one thread calls Start and Wait. That thread and the tasks may call Push.
class TaskGroup {
 public:
  explicit TaskGroup(uint32_t threads) : threads_(threads) {}
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;
  ~TaskGroup() {
    if (pool_) pool_->join();
  }

  // Errors: Unsupported if this machine cannot start the threads.
  Status Start() {
    if (pool_) return Ok();
    try {
      pool_ = std::make_unique<boost::asio::thread_pool>(threads_);
    } catch (const std::exception& error) {
      return MakeError(Code::kUnsupported,
                       std::string("this machine gives no threads for tasks (") + error.what() +
                           "): allow more processes (`ulimit -u`, pids.max of "
                           "the control group), or more memory");
    }
    return Ok();
  }

  // Requires: Start.
  template <typename Task>
  void Push(Task task) {
    assert(pool_);
    pending_.fetch_add(1, std::memory_order_relaxed);
    boost::asio::post(*pool_, [this, task = std::move(task)]() mutable {
      task();
      if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
    });
  }

  // Waits until all tasks are done, and all tasks that these have pushed.
  void Wait() {
    for (;;) {
      const uint64_t pending = pending_.load(std::memory_order_acquire);
      if (pending == 0) return;
      pending_.wait(pending, std::memory_order_acquire);
    }
  }

 private:
  const uint32_t threads_;
  std::atomic<uint64_t> pending_ = 0;
  std::unique_ptr<boost::asio::thread_pool> pool_;
};

}  // namespace gossamer::lab
