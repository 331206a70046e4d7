// A thread's own part of a device: queue pairs and completion queues that no other thread uses.
//
// In a thread domain, the provider gives queue pairs a doorbell register of their own, and takes no
// lock for it. Without, all queue pairs of a process share a few registers (16 on mlx5), each under
// a spin lock: SMART (ASPLOS 2024) found that to be the first bottleneck of many threads.
//
// Thread-safety: none; a domain belongs to one thread, and outlives what is made in it.
#pragma once

#include "common/fabric/verbs/device.h"
#include "common/fabric/verbs/resources.h"
#include "common/status.h"

namespace gossamer::verbs {

class ThreadDomain {
 public:
  // Of a device that has no thread domains (left), it is the device's own domain.
  explicit ThreadDomain(const Device& device);

  ibv_pd* protection_domain() const { return parent_ ? parent_.get() : shared_; }
  bool is_own() const { return parent_ != nullptr; }

  // A completion queue that only this thread polls.
  // Errors: NoResources.
  Result<CompletionQueue> NewCompletionQueue(int entries) const;

 private:
  struct FreeThread {
    void operator()(ibv_td* thread) const { static_cast<void>(ibv_dealloc_td(thread)); }
  };

  ibv_context* verbs_;
  ibv_pd* shared_;
  std::unique_ptr<ibv_td, FreeThread> thread_;
  ProtectionDomain parent_;  // behind its thread: it is destroyed first
};

}  // namespace gossamer::verbs
