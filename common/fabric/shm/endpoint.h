// The endpoint of the shm fabric: performs verbs itself, as the NIC would.
//
// `Post` appends a batch to the endpoint's queue and prefetches the remote lines that it will
// touch. `Poll` performs the verbs of all batches posted before it, in order, then completes them.
// In between, the caches work on the misses of all operations in flight.
//
// Hot path: Post(Batch&), Poll, ClientQueuePair::Perform. No allocation, logging, lock, system call
// or virtual call per verb. The first poll in each tick of the kernel's timer (1 to 10 ms) checks
// with one system call per queue pair whether the server lives.
// Thread-safety: none; belongs to its thread.
#pragma once

#include <memory>
#include <vector>

#include "common/fabric/buffer_pool.h"
#include "common/fabric/endpoint.h"
#include "common/fabric/shm/client_queue_pair.h"
#include "common/fabric/shm/compute_port.h"
#include "common/fabric/shm/handshake.h"

namespace gossamer::shm {

class ShmEndpoint final : public Endpoint {
 public:
  explicit ShmEndpoint(ShmComputePort& port) : port_(port) {}

  void Post(Batch& batch) override;
  void Prefetch(ServerId server, uint64_t offset, uint32_t length) override;
  void Post(ControlCall& call) override;
  void Post(QueuePairRequest& request) override;
  size_t Poll() override;
  bool IsIdle() const override {
    return posted_.empty() && flushed_.empty() && completing_.empty() && calls_outstanding_ == 0 &&
           requests_outstanding_ == 0;
  }
  bool IsAttached(ServerId server) const override { return Find(server) != nullptr; }
  uint64_t BrokenQueuePairId(ServerId server) const override {
    const ClientQueuePair* queue_pair = Find(server);
    return queue_pair == nullptr || queue_pair->working() ? 0 : queue_pair->grant().queue_pair;
  }
  uint64_t WorkingQueuePairId(ServerId server) const override {
    const ClientQueuePair* queue_pair = Find(server);
    return queue_pair != nullptr && queue_pair->working() ? queue_pair->grant().queue_pair : 0;
  }
  const Limits& limits() const override { return limits_; }
  BufferPool& buffers() override { return buffers_; }

 private:
  ClientQueuePair* Find(ServerId server) const {
    const size_t index = ToInteger(server);
    return index < queue_pairs_.size() ? queue_pairs_[index].get() : nullptr;
  }
  // A request whose server has not answered yet.
  struct Opening {
    QueuePairRequest* request;
    Handshake handshake;
  };

  void Perform(const IntrusiveQueue<Batch>& batches);
  size_t PollCalls(bool check_peer);
  size_t PollOpenings();
  void Install(ServerId server, QueuePairGrant grant);
  // Ends `request` in the next Poll.
  void End(QueuePairRequest& request, Status status);
  // Completes as kFlushed, in the next Poll, what has been posted to `server`.
  void FlushPosted(ServerId server);

  ShmComputePort& port_;
  SlabRegistrar registrar_;
  BufferPool buffers_{registrar_};
  Limits limits_{.path_mtu = kPathMtu,
                 .max_batch_verbs = 4096,
                 .max_outstanding_verbs = 4096,
                 .max_inline_bytes = 0,
                 .has_free_round_trips = true};
  std::vector<std::unique_ptr<ClientQueuePair>> queue_pairs_;  // by server id
  IntrusiveQueue<Batch> posted_;
  IntrusiveQueue<Batch> flushed_;            // statuses are set; wait for completion
  IntrusiveQueue<ControlCall> ended_calls_;  // likewise
  IntrusiveQueue<Batch> completing_;         // being completed by a poll
  IntrusiveQueue<ControlCall> completing_calls_;
  std::vector<Opening> openings_;
  IntrusiveQueue<QueuePairRequest> ended_requests_;
  IntrusiveQueue<QueuePairRequest> completing_requests_;
  uint32_t requests_outstanding_ = 0;
  uint32_t calls_outstanding_ = 0;
  uint64_t last_check_ = 0;  // CoarseTime
};

}  // namespace gossamer::shm
