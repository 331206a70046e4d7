// A thread's access to memory servers: it posts work requests, polls, and awaits them. fabric.h has
// the rules.
//
// Cost: the data path calls only `Post` and `Poll`; neither allocates, locks or blocks.
// Thread-safety: an endpoint, its buffers and batches belong to one thread.
#pragma once

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/fabric/buffer_pool.h"
#include "common/fabric/work_request.h"
#include "common/status.h"
#include "proto/remote_ptr.h"

namespace gossamer {

// Limits of the path to a memory server, as the device reports them.
struct Limits {
  uint32_t path_mtu = 0;         // bytes; a WRITE up to this is atomic with respect to death
  uint32_t max_batch_verbs = 0;  // verbs in one batch, at least 64
  // Verbs posted and not completed on one queue pair. More are queued inside the endpoint, in
  // order.
  uint32_t max_outstanding_verbs = 0;
  uint32_t max_inline_bytes = 0;
  // Whether a batch takes the processor's time alone: what two batches do costs as much in one.
  bool has_free_round_trips = false;
};

// A thread's access to all memory servers that its port is connected to.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // Starts `batch`. A later `Poll` completes it with a status in every verb; a batch for a server
  // without a working queue pair completes as kFlushed. Never blocks: verbs beyond the queue pair's
  // depth wait inside the endpoint.
  virtual void Post(Batch& batch) = 0;
  // Likewise for a control message. Cost: one SEND each way.
  virtual void Post(ControlCall& call) = 0;
  // Likewise for a queue pair. Ends within the connection timeout. Flushes what was posted on the
  // old queue pair.
  // Errors: NodeUnreachable when the server is gone or another incarnation has taken its place;
  // InvalidArgument for a server that the port is not connected to. After an error there is no
  // working queue pair, and the old one still counts as not destroyed.
  virtual void Post(QueuePairRequest& request) = 0;
  // Says that a verb on `length` bytes of the region, from `offset` on, will be posted soon. Where
  // this processor does what a NIC would do, it loads them. Never needed, and harmless for any
  // place.
  virtual void Prefetch(ServerId /*server*/, uint64_t /*offset*/, uint32_t /*length*/) {}
  // Completes what has arrived, and resumes the coroutines whose completions reached zero. Does not
  // block.
  // Returns: the number of completed items.
  virtual size_t Poll() = 0;
  // True if nothing posted here is outstanding: polling is useless until the next post, and this
  // endpoint's thread may sleep. False where time passes only in `Poll`.
  virtual bool IsIdle() const { return false; }
  // Lets other threads use the processor while polling is useless.
  virtual void Yield();

  // Whether there is, or was, a queue pair to `server`: it may be broken.
  virtual bool IsAttached(ServerId server) const = 0;
  // Identifies the queue pair to `server`, unique among all that the server ever had, if it is
  // broken and not replaced. 0: no such queue pair.
  virtual uint64_t BrokenQueuePairId(ServerId server) const = 0;
  // Likewise if it is not broken, as far as is known.
  virtual uint64_t WorkingQueuePairId(ServerId server) const = 0;
  // For callers without coroutines: posts a QueuePairRequest, and polls until it has ended.
  Status Reconnect(ServerId server);
  // Likewise, unless there is a queue pair.
  Status Attach(ServerId server);
  // Likewise for several servers in parallel. Unreachable servers stay unattached.
  void AttachAll(std::span<const ServerId> servers);

  using Clock = std::chrono::steady_clock;
  // The clock for pauses and time-outs of this endpoint's thread. The simulator has its own.
  virtual Clock::time_point Now() const { return Clock::now(); }
  // Announces that this endpoint's thread has work other than a completion at `due`, or at once if
  // `due` is past. Only the simulator needs it: its time does not pass by itself. Thread-safety:
  // any thread.
  virtual void WakeAt(Clock::time_point /*due*/) {}

  // The endpoint of the fabric, below all decorators.
  virtual Endpoint& undecorated() { return *this; }

  virtual const Limits& limits() const = 0;
  // The source of local buffers for verbs.
  virtual BufferPool& buffers() = 0;

  // co_await endpoint.Execute(batch): one round trip. Likewise for a call or a request.
  template <typename Posted>
  auto Execute(Posted& posted);
  // co_await endpoint.ExecuteAll(batches): one round trip for all; skips empty batches and nulls.
  auto ExecuteAll(std::span<Batch* const> batches);
};

// ---- Awaiting

namespace internal {

template <typename Posted>
struct ExecuteOne : std::suspend_always {
  Endpoint& endpoint;
  Posted& posted;
  Completion completion;

  void await_suspend(std::coroutine_handle<> waiter) {
    completion = {1, waiter};
    posted.completion = &completion;
    endpoint.Post(posted);
  }
};

struct ExecuteMany : std::suspend_always {
  Endpoint& endpoint;
  std::span<Batch* const> batches;
  Completion completion;

  bool await_suspend(std::coroutine_handle<> waiter) {
    completion.waiter = waiter;
    for (const Batch* batch : batches) {
      if (batch != nullptr && !batch->empty()) ++completion.remaining;
    }
    if (completion.remaining == 0) return false;
    for (Batch* batch : batches) {
      if (batch == nullptr || batch->empty()) continue;
      batch->completion = &completion;
      endpoint.Post(*batch);
    }
    return true;
  }
};

}  // namespace internal

template <typename Posted>
auto Endpoint::Execute(Posted& posted) {
  return internal::ExecuteOne<Posted>{{}, *this, posted, {}};
}
inline auto Endpoint::ExecuteAll(std::span<Batch* const> batches) {
  return internal::ExecuteMany{{}, *this, batches, {}};
}

// For callers without coroutines: polls until what was posted with `completion` has ended. The
// fabric bounds the wait.
void PollUntilComplete(Endpoint& endpoint, const Completion& completion);

}  // namespace gossamer
