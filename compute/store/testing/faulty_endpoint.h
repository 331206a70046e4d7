// FaultyEndpoint: an endpoint that does the worst that CONTRACT.md allows.
//
// It passes each verb of a batch to the endpoint below separately and in order, so that other
// clients act between any two verbs. As its `FaultPlan` says, it delays verbs, tears READs, loses
// the connection, or waits at a step. It also counts a WRITE to a lock word or to the root word as
// a breach of line A2 and rules L1, R7.
//
// Thread-safety: none, as for any endpoint. The plan may be changed between polls.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "common/fabric/endpoint.h"
#include "common/fabric/endpoint_decorator.h"

namespace gossamer {

struct FaultPlan {
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  std::mt19937_64 random;

  // Probability that a READ is torn: each byte is from the READ's beginning or its end (A3, N2).
  double tear = 0;
  // Probability that a READ returns bytes that no checksum accepts. Only for sessions that hold no
  // lock: memory under a session's own lock does not change.
  double scramble = 0;
  // Each verb starts up to so many polls after the previous one.
  uint32_t max_delay = 0;

  // Verbs numbered above this wait until it is raised. Raising it is a step.
  uint64_t allowed_verbs = kNever;
  // Servers that do not answer: verbs wait that have not started there.
  std::set<ServerId> silent;

  // The verb of this number, counted from 1, and those behind it on its queue pair end as kUnknown,
  // and all later posts as kFlushed (E3). The first `applied` verbs from `break_at` on take effect.
  uint64_t break_at = kNever;
  uint64_t applied = 0;
  // Whether the server can be reconnected after that, and how many reconnections can succeed in
  // all.
  bool can_reconnect = false;
  uint64_t reconnects_left = kNever;

  // Control messages pass, end as kFlushed, or wait until they may pass.
  enum class Calls : uint8_t { kPass, kFail, kWait };
  Calls calls = Calls::kPass;
  std::vector<ControlCall*> waiting_calls;

  // Results.
  uint64_t verbs = 0;
  uint64_t torn = 0;
  uint64_t scrambled = 0;
  uint64_t forbidden_writes = 0;
  bool broke = false;
  uint64_t lost = 0;        // verbs that ended with the connection, applied or not
  bool holds_back = false;  // a verb waits for `allowed_verbs`
  // Lost WRITEs that have not taken effect: they may still land (U1).
  struct LateWrite {
    ServerId server;
    uint64_t offset;
    std::vector<std::byte> bytes;
  };
  std::vector<LateWrite> late_writes;
};

// Lifts the step limit at its end. Declare it after a session that steps, so that the session can
// end.
class StepGuard {
 public:
  explicit StepGuard(FaultPlan& plan) : plan_(plan) {}
  StepGuard(const StepGuard&) = delete;
  StepGuard& operator=(const StepGuard&) = delete;
  ~StepGuard() { plan_.allowed_verbs = FaultPlan::kNever; }

 private:
  FaultPlan& plan_;
};

class FaultyEndpoint final : public EndpointDecorator {
 public:
  // `plan` must outlive the endpoint.
  FaultyEndpoint(std::unique_ptr<Endpoint> below, FaultPlan& plan)
      : EndpointDecorator(std::move(below)), plan_(plan) {}

  void Post(Batch& batch) override;
  void Post(ControlCall& call) override;
  size_t Poll() override;

  void Post(QueuePairRequest& request) override;

 private:
  // One verb in flight.
  struct Single {
    InlineBatch<1> batch;
    Completion done;
    uint32_t delay = 0;
    bool posted = false;
    // The status after the connection was lost; kPending if it was not lost.
    VerbStatus lost = VerbStatus::kPending;
    // The second read of a torn READ.
    bool torn = false;
    BufferLease late_bytes;
    InlineBatch<1> late;
    Completion late_done;
    bool late_posted = false;
  };
  struct Flight {
    Batch* batch;
    std::vector<std::unique_ptr<Single>> singles;
  };

  bool TryStart(Flight& flight);
  void Start(Single& single, ServerId server);
  bool TryFinish(Flight& flight);
  void Watch(const Verb& verb);
  Status Replace(ServerId server);

  FaultPlan& plan_;
  std::deque<std::unique_ptr<Flight>> flights_;
  std::set<ServerId> broken_;
  std::vector<ControlCall*> lost_calls_;
  std::vector<QueuePairRequest*> ended_requests_;
};

}  // namespace gossamer
