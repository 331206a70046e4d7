// Opens a queue pair on a thread of its own, as the connection manager and the device take up to
// some milliseconds for each step: meanwhile the endpoint's thread serves its other queue pairs.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cassert>
#include <memory>
#include <thread>

#include "common/fabric/compute_port.h"
#include "common/fabric/verbs/connect.h"
#include "common/fabric/verbs/resources.h"
#include "common/fabric/verbs/wire.h"

namespace gossamer::verbs {

// One attempt. Its queue pair is made in the domain, and for the completion queue, of the
// endpoint's thread, which goes on to use both: see ThreadDomain.
//
// Thread-safety: none; it belongs to the endpoint's thread.
class OpeningAttempt {
 public:
  struct Plan {
    BareQueuePair replaced;  // what was posted on it has ended; destroyed first
    Peer peer;
    AttemptEnd end;
    ibv_pd* domain;
    ibv_cq* queue;
    ConnectRequest request;
  };
  // Requires (unchecked): `options`, and what `plan` points to, outlive the attempt.
  // Errors: Unsupported: this machine gives no thread.
  static Result<std::unique_ptr<OpeningAttempt>> Start(Plan plan,
                                                       const ComputePortOptions& options);
  // Ends an attempt that is under way, within 10 ms.
  ~OpeningAttempt();

  bool is_done() const { return is_done_.load(std::memory_order_acquire); }
  // Ok: the server has destroyed the connection to be replaced, and accepted this one. Errors:
  // those of ConnectAttempt.
  // Requires: is_done().
  const Status& status() const {
    assert(is_done());
    return status_;
  }
  // Requires: `status` is Ok.
  Connection& connection() {
    assert(status());
    return connection_;
  }

 private:
  OpeningAttempt(Plan plan, const ComputePortOptions& options)
      : plan_(std::move(plan)), options_(options) {}
  void Run();
  Status Connect();

  Plan plan_;
  const ComputePortOptions& options_;
  // Written by the thread until is_done_.
  Connection connection_;
  Status status_ = Ok();
  std::atomic<bool> is_done_ = false;
  std::atomic<bool> is_cancelled_ = false;
  std::thread thread_;
};

}  // namespace gossamer::verbs
