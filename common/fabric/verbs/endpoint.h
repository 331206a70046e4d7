// A thread's queue pairs and completion queue: the data path of the verbs fabric.
//
// Hot path: `Post` of a batch writes work requests into preallocated arrays and rings one doorbell.
// `Poll` polls the completion queue once, posts what found no room before, and resumes coroutines.
// No allocation, lock or virtual call per verb. Every 32nd `Poll` reads the clock, to detect lost
// peers.
//
// Thread-safety: none; an endpoint belongs to one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/fabric/endpoint.h"
#include "common/fabric/verbs/compute_port.h"
#include "common/fabric/verbs/connect.h"
#include "common/fabric/verbs/device.h"
#include "common/fabric/verbs/opening.h"
#include "common/fabric/verbs/queue_pair.h"
#include "common/fabric/verbs/thread_domain.h"

namespace gossamer::verbs {

// The slabs of an endpoint's buffers, registered with its device until destroyed.
class Slabs final : public SlabRegistrar {
 public:
  explicit Slabs(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  Result<uint32_t> RegisterSlab(std::byte* data, size_t bytes) override {
    BOOST_OUTCOME_TRY(region, device_->Register(data, bytes, IBV_ACCESS_LOCAL_WRITE));
    const uint32_t key = region->lkey;
    slabs_.push_back(std::move(region));
    return key;
  }
  void UnregisterSlab(uint32_t key) override {
    std::erase_if(slabs_, [key](const MemoryRegion& slab) { return slab->lkey == key; });
  }

 private:
  const std::shared_ptr<Device> device_;
  std::vector<MemoryRegion> slabs_;
};

// A queue pair that is being opened, attempt by attempt.
struct Opening {
  Opening(QueuePairRequest& wanted, const ComputePortOptions& options)
      : request(&wanted), retry(options) {}

  QueuePairRequest* request;
  ConnectRetry retry;
  // Null while the present queue pair has not ended, and in a pause.
  std::unique_ptr<OpeningAttempt> attempt;
};

class VerbsEndpoint final : public Endpoint {
 public:
  static Result<std::unique_ptr<VerbsEndpoint>> Open(VerbsComputePort& port,
                                                     std::shared_ptr<Device> device);
  ~VerbsEndpoint() override;

  void Post(Batch& batch) override;
  void Post(ControlCall& call) override;
  void Post(QueuePairRequest& request) override;
  size_t Poll() override;
  bool IsIdle() const override;
  bool IsAttached(ServerId server) const override {
    const QueuePair* queue_pair = Find(server);
    return queue_pair != nullptr && queue_pair->was_connected;
  }
  uint64_t BrokenQueuePairId(ServerId server) const override;
  uint64_t WorkingQueuePairId(ServerId server) const override;
  const Limits& limits() const override { return limits_; }
  BufferPool& buffers() override { return buffers_; }

  // Doorbells rung for one-sided verbs: one per batch, unless a server wants smaller pieces.
  uint64_t doorbells() const { return doorbells_; }

 private:
  VerbsEndpoint(VerbsComputePort& port, std::shared_ptr<Device> device);

  QueuePair* Find(ServerId server) const {
    const uint16_t index = ToInteger(server);
    return index < queue_pairs_.size() ? queue_pairs_[index].get() : nullptr;
  }

  // Posting.
  void Submit(QueuePair& queue_pair, Batch& batch, uint32_t first_verb = 0);
  void PostWaiting(QueuePair& queue_pair);

  // Completing.
  size_t PollQueue();
  void OnCompletion(const ibv_wc& completion);
  void OnSent(QueuePair& queue_pair, uint32_t sequence);
  void OnSendFailure(QueuePair& queue_pair, uint32_t sequence, ibv_wc_status status);
  void OnReply(QueuePair& queue_pair, const ibv_wc& completion);
  void CompleteFirst(QueuePair& queue_pair);
  void Finish(Batch& batch, VerbStatus pending_become);
  void Finish(ControlCall& call, VerbStatus status);
  size_t Resume();

  // Failing.
  void Break(QueuePair& queue_pair);
  void EndBreaking(QueuePair& queue_pair);
  void Collapse(QueuePair& queue_pair);
  void CheckPeers();
  void CheckPeer(QueuePair& queue_pair, Watch::Clock::time_point now);

  // Opening: see endpoint_open.cc.
  Status MakeRoom(uint32_t queue_pairs);
  Result<QueuePair*> MakeQueuePair(ServerId server);
  size_t PollOpenings();
  // kDone: the queue pair works.
  Result<ConnectState> Advance(Opening& opening);
  Status Begin(Opening& opening, QueuePair& queue_pair);
  void Install(QueuePair& queue_pair, Connection connection);
  void End(QueuePairRequest& request, Status status);

  VerbsComputePort& port_;
  const std::shared_ptr<Device> device_;
  const ComputePortOptions options_;
  Limits limits_;
  Slabs slabs_;
  BufferPool buffers_;  // after its slabs
  const ThreadDomain domain_;
  CompletionQueue queue_;
  std::vector<std::unique_ptr<QueuePair>> queue_pairs_;  // by server; null: not attached
  uint32_t attached_ = 0;

  std::vector<ibv_send_wr> requests_;  // each linked to the next
  std::vector<ibv_sge> pieces_;
  IntrusiveQueue<Batch> finished_;
  IntrusiveQueue<ControlCall> finished_calls_;
  IntrusiveQueue<Batch> completing_;  // being completed by a poll
  IntrusiveQueue<ControlCall> completing_calls_;
  std::vector<std::unique_ptr<Opening>> openings_;
  IntrusiveQueue<QueuePairRequest> ended_requests_;
  IntrusiveQueue<QueuePairRequest> completing_requests_;
  uint32_t polls_ = 0;
  uint64_t doorbells_ = 0;
};

}  // namespace gossamer::verbs
