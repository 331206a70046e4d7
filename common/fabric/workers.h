// Workers: coroutines of one scheduler that share a job, and the wait for all of them.
//
// Thread-safety: none. Cost: a frame from the pool for each worker.
#pragma once

#include <cstddef>
#include <utility>

#include "common/fabric/event.h"
#include "common/fabric/scheduler.h"
#include "common/task.h"

namespace gossamer {

class Workers {
 public:
  explicit Workers(Scheduler& scheduler) : scheduler_(scheduler) {}
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Started and not yet ended.
  size_t running() const { return running_; }
  // Starts `work`, which runs until it first waits. Wait() must end before this object does.
  void Start(Task<void> work) {
    ++running_;
    scheduler_.Spawn(Run(std::move(work)));
  }
  Task<void> Wait() {
    while (running_ != 0) co_await ended_.Wait();
  }

 private:
  Task<void> Run(Task<void> work) {
    co_await work;
    if (--running_ == 0) ended_.NotifyAll(scheduler_);
  }

  Scheduler& scheduler_;
  size_t running_ = 0;
  Event ended_;
};

}  // namespace gossamer
