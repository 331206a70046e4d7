// The endpoint of the simulated fabric: passes batches to queue pairs and completions to
// coroutines.
//
// `Poll` with nothing to report executes one event of the network, so that code that polls in a
// loop works in virtual time as in real time.
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <vector>

#include "common/fabric/buffer_pool.h"
#include "common/fabric/endpoint.h"
#include "common/fabric/intrusive_queue.h"
#include "common/fabric/sim/queue_pair.h"
#include "common/fabric/sim/sim.h"

namespace gossamer::sim {

class SimComputePort;

class SimEndpoint final : public Endpoint {
 public:
  SimEndpoint(SimComputePort& port, SimNetwork& network, ClientState& client);
  ~SimEndpoint() override;

  void Post(Batch& batch) override;
  void Post(ControlCall& call) override;
  void Post(QueuePairRequest& request) override;
  size_t Poll() override;
  // Everything happens in Poll. On a busy machine a system call here would take longer than the run
  // itself.
  void Yield() override {}
  bool IsAttached(ServerId server) const override { return SlotOf(server).server_number != kNone; }
  uint64_t BrokenQueuePairId(ServerId server) const override {
    return SlotOf(server).working ? 0 : SlotOf(server).queue_pair_id;
  }
  uint64_t WorkingQueuePairId(ServerId server) const override {
    return SlotOf(server).working ? SlotOf(server).queue_pair_id : 0;
  }
  Clock::time_point Now() const override { return network_.Now(); }
  void WakeAt(Clock::time_point due) override;
  const Limits& limits() const override { return limits_; }
  BufferPool& buffers() override { return buffers_; }

  // For queue pairs: the item has ended, with its statuses.
  void Complete(Batch& batch);
  void Complete(ControlCall& call);
  // The queue pair takes no more posts. What ended with it, in `lost`, completes in `until_told`.
  // `owes_unknown`: no verb was in flight, so the next one ends as kUnknown.
  void QueuePairBroke(const QueuePair& queue_pair, Notice& lost, bool owes_unknown,
                      Nanoseconds until_told);
  // Logs a fault that keeps this endpoint from that memory server until `until`; by default, until
  // it has a new queue pair.
  void Meets(SimFault::Kind kind, uint64_t server_number, Nanoseconds until = kUntilReplaced);
  // The memory server has destroyed the queue pair.
  void QueuePairGone(const QueuePair& queue_pair);

  // For the network.
  void LearnOfBreak(ServerId server);
  // The client's process is gone.
  void BreakAll();
  // Breaks the queue pairs on links that `outage` takes down.
  void LoseLinks(const Outage& outage);
  ClientState& client() { return client_; }
  const ClientState& client() const { return client_; }
  uint64_t id() const { return id_; }
  bool HasWork() const { return awake_ || HasEnded(); }
  void Awake() { awake_ = true; }
  // When its thread has time and its process is not stopped.
  Nanoseconds free_at() const { return std::max(busy_until_, client_.paused_until); }
  // When a post of its thread leaves: after the thread's work for earlier completions.
  Nanoseconds posts_at() const { return std::max(network_.now(), posts_at_); }
  // Its thread has no time until then.
  void StopUntil(Nanoseconds until) { busy_until_ = std::max(busy_until_, until); }
  bool queued = false;    // in the network's queue of runnable endpoints
  bool resuming = false;  // a wake is armed for when its thread has time
  void* owner = nullptr;

 private:
  // Whether anything waits to be reported.
  bool HasEnded() const {
    return !ended_batches_.empty() || !ended_calls_.empty() || !completing_.empty() ||
           !completing_calls_.empty() || !ended_requests_.empty() || !completing_requests_.empty();
  }
  static constexpr uint64_t kNone = ~uint64_t{0};
  static constexpr Nanoseconds kUntilReplaced = Clock::time_point::max().time_since_epoch().count();

  struct Slot {
    uint64_t server_number = kNone;
    QueuePair* queue_pair = nullptr;  // also a broken one; null once that is gone
    uint64_t queue_pair_id = 0;       // of the last one that worked
    bool working = false;
    bool is_opened = false;               // works once this endpoint has been told so
    bool was_down = false;                // since it was opened
    bool owes_unknown = false;            // the next verb posted ends as kUnknown
    Notice* notice = nullptr;             // broken, but this endpoint does not know yet
    QueuePairRequest* request = nullptr;  // for the replacement
    Nanoseconds give_up = 0;              // until then the request waits for the link
    Nanoseconds look_at = 0;              // when a due wake will check the link again
  };

  // Completes all of `completing`, each when the thread reaches it. Returns their number.
  template <typename Posted>
  size_t Report(IntrusiveQueue<Posted>& completing);
  size_t ReportRequests();
  // Ends what is posted without a working queue pair.
  template <typename Posted>
  void PostInVain(Posted& posted, ServerId server);

  // An empty one if nothing was ever asked for there.
  const Slot& SlotOf(ServerId server) const {
    static const Slot empty;
    return ToInteger(server) < slots_.size() ? slots_[ToInteger(server)] : empty;
  }
  QueuePair* Working(ServerId server) const {
    return SlotOf(server).working ? SlotOf(server).queue_pair : nullptr;
  }
  Status Open(Slot& slot, ServerId server);
  // Ends the request of `slot` if the link is up, or has been down for too long.
  void TryOpen(Slot& slot);
  void End(QueuePairRequest& request, Status status);

  SimComputePort& port_;
  SimNetwork& network_;
  ClientState& client_;
  uint64_t id_;
  SlabRegistrar registrar_;
  BufferPool buffers_{registrar_};
  Limits limits_;
  std::vector<Slot> slots_;  // by server id
  IntrusiveQueue<Batch> ended_batches_;
  IntrusiveQueue<ControlCall> ended_calls_;
  IntrusiveQueue<Batch> completing_;  // being completed by a poll
  IntrusiveQueue<ControlCall> completing_calls_;
  uint32_t openings_ = 0;  // slots with a request
  IntrusiveQueue<QueuePairRequest> ended_requests_;
  IntrusiveQueue<QueuePairRequest> completing_requests_;
  bool awake_ = false;  // a wake is due
  Nanoseconds busy_until_ = 0;
  Nanoseconds posts_at_ = 0;
};

}  // namespace gossamer::sim
