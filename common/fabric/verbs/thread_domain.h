// A thread's own part of a device: for queue pairs to which no other thread posts.
//
// In a thread domain, the provider gives queue pairs a doorbell register of their own, and takes no
// lock for it. Without, all queue pairs of a process share a few registers (16 on mlx5), each under
// a spin lock: SMART (ASPLOS 2024) found that to be the first bottleneck of many threads.
//
// Completion queues keep their lock, which nobody contends for: rdma-core's mlx5 takes it in
// ibv_poll_cq whatever IBV_CREATE_CQ_ATTR_SINGLE_THREADED says (4 ns of 27 for a poll). Queue pairs
// may therefore be made and destroyed by another thread than the one that polls.
//
// Thread-safety: posting belongs to one thread. A domain outlives what is made in it.
#pragma once

#include "common/fabric/verbs/device.h"
#include "common/fabric/verbs/resources.h"

namespace gossamer::verbs {

class ThreadDomain {
 public:
  // Of a device that has no thread domains (left), it is the device's own domain.
  explicit ThreadDomain(const Device& device);

  ibv_pd* protection_domain() const { return parent_ ? parent_.get() : shared_; }
  bool is_own() const { return parent_ != nullptr; }

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
