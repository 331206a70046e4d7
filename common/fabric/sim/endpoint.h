// The endpoint of the simulated fabric: hands batches to queue pairs and completions to coroutines.
//
// `Poll` with nothing to report executes one event of the network, so that code that polls until it
// has what it waits for works in virtual time as in real time. Thread-safety: none.
#pragma once

#include <algorithm>
#include <vector>

#include "common/fabric/buffer_pool.h"
#include "common/fabric/fabric.h"
#include "common/fabric/intrusive_queue.h"
#include "common/fabric/sim/network.h"
#include "common/fabric/sim/queue_pair.h"

namespace gossamer::sim {

class SimComputePort;

class SimEndpoint final : public Endpoint {
 public:
  SimEndpoint(SimComputePort& port, Network& network, Client& client);
  ~SimEndpoint() override;

  void Post(Batch& batch) override;
  void Post(ControlCall& call) override;
  void Post(QueuePairRequest& request) override;
  size_t Poll() override;
  // All that is waited for happens in Poll: on a busy machine a system call here takes longer than the run itself.
  void Yield() override {}
  bool IsAttached(ServerId server) const override {
    return ToInteger(server) < slots_.size() && slots_[ToInteger(server)].server_number != kNone;
  }
  uint64_t BrokenQueuePairId(ServerId server) const override {
    const size_t index = ToInteger(server);
    return index < slots_.size() && !slots_[index].working ? slots_[index].queue_pair_id : 0;
  }
  Clock::time_point Now() const override { return network_.Now(); }
  void WakeAt(Clock::time_point due) override;
  const Limits& limits() const override { return limits_; }
  BufferPool& buffers() override { return buffers_; }

  // For queue pairs: it has come to its end, with its statuses.
  void Complete(Batch& batch);
  void Complete(ControlCall& call);
  // Nothing more is posted on it. What ended with it completes after `notice`.
  void QueuePairBroke(const QueuePair& queue_pair, Ended& ended, Nanoseconds notice);
  // Something keeps it from that memory server until it has a new queue pair.
  void Meets(SimFault::Kind kind, uint64_t server_number);
  // A call there is not answered until then.
  void MissesAnswer(uint64_t server_number, Nanoseconds until);
  // A call there waits, as the server has stopped until then.
  void Waits(uint64_t server_number, Nanoseconds until);
  // Its memory server has forgotten it.
  void QueuePairGone(const QueuePair& queue_pair);

  // For the network.
  void LearnOfBreak(ServerId server);
  // Its process is gone.
  void BreakAll();
  // Those that `outage` concerns are down.
  void LoseLinks(const Outage& outage);
  Client& client() { return client_; }
  const Client& client() const { return client_; }
  uint64_t id() const { return id_; }
  bool HasWork() const { return awake_ || HasEnded(); }
  void Awake() { awake_ = true; }
  // From when on its thread has time, and its process is not stopped.
  Nanoseconds free_at() const { return std::max(busy_until_, client_.paused_until); }
  // When what its thread posts now leaves: once it has done the work of the completions before.
  Nanoseconds posts_at() const { return std::max(network_.now(), posts_at_); }
  bool queued = false;    // stands among the runnable ones
  bool resuming = false;  // is woken when its thread has time
  void* owner = nullptr;

 private:
  // Whether anything waits for being reported.
  bool HasEnded() const {
    return !ended_batches_.empty() || !ended_calls_.empty() || !completing_.empty() ||
           !completing_calls_.empty() || !ended_requests_.empty() || !completing_requests_.empty();
  }
  // Local memory needs no registration here.
  class NoRegistrar final : public SlabRegistrar {
   public:
    Result<uint32_t> RegisterSlab(std::byte*, size_t) override { return uint32_t{0}; }
    void UnregisterSlab(uint32_t) override {}
  };

  static constexpr uint64_t kNone = ~uint64_t{0};

  struct Slot {
    uint64_t server_number = kNone;
    QueuePair* queue_pair = nullptr;  // also a broken one; null once that is gone
    uint64_t queue_pair_id = 0;       // of the last one that worked
    bool working = false;
    bool is_opened = false;               // works once this endpoint has been told so
    bool was_down = false;                // since it was opened
    bool owes_unknown = false;            // the next verb posted ends as kUnknown
    Notice* notice = nullptr;             // broken, but this endpoint does not know yet
    QueuePairRequest* request = nullptr;  // for a queue pair to take its place
    Nanoseconds give_up = 0;              // until then the request waits for the link
    Nanoseconds look_at = 0;              // when a wake is due that looks at the link again
  };

  // Completes all of `completing`, each once the thread has come to it, and returns how many.
  template <typename Posted>
  size_t Report(IntrusiveQueue<Posted>& completing);
  size_t ReportRequests();
  // Ends what is posted where no queue pair works.
  template <typename Posted>
  void PostInVain(Posted& posted, ServerId server);

  QueuePair* Working(ServerId server) {
    const size_t index = ToInteger(server);
    if (index >= slots_.size() || !slots_[index].working) return nullptr;
    return slots_[index].queue_pair;
  }
  Status Open(Slot& slot, ServerId server);
  // Ends the request of `slot` if the link is up, or was down for too long.
  void TryOpen(Slot& slot);
  void End(QueuePairRequest& request, Status status);

  SimComputePort& port_;
  Network& network_;
  Client& client_;
  uint64_t id_;
  NoRegistrar registrar_;
  BufferPool buffers_{registrar_};
  Limits limits_;
  std::vector<Slot> slots_;  // by server id
  IntrusiveQueue<Batch> ended_batches_;
  IntrusiveQueue<ControlCall> ended_calls_;
  IntrusiveQueue<Batch> completing_;  // those that a poll has begun to complete
  IntrusiveQueue<ControlCall> completing_calls_;
  uint32_t openings_ = 0;  // slots with a request
  IntrusiveQueue<QueuePairRequest> ended_requests_;
  IntrusiveQueue<QueuePairRequest> completing_requests_;
  bool awake_ = false;  // a wake is due
  Nanoseconds busy_until_ = 0;
  Nanoseconds posts_at_ = 0;
};

}  // namespace gossamer::sim
