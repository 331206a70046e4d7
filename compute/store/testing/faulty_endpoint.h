// FaultyEndpoint: an endpoint that does its worst within what CONTRACT.md allows.
//
// It hands each verb of a batch to the endpoint below by itself and in order, so that others get between any two
// verbs, and then, as its `FaultPlan` says, delays verbs, tears READs, loses the connection, or waits at a step.
// It also watches: a WRITE to a lock word or to the root word is counted as a breach of lines A2 and rules L1, R7.
//
// Thread-safety: none, as any endpoint; the plan may be changed between polls.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "common/fabric/fabric.h"

namespace gossamer {

struct FaultPlan {
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  std::mt19937_64 random;

  // A READ takes some time; each of its bytes is as it was at the beginning or at the end (A3, N2).
  double tear = 0;
  // A READ returns bytes that no checksum accepts. Only for those who hold no lock: nobody writes under theirs.
  double scramble = 0;
  // Each verb starts up to so many polls after the one before it.
  uint32_t max_delay = 0;

  // Verbs numbered above this wait until it is raised: a step.
  uint64_t allowed_verbs = kNever;

  // The verb of this number, counted from 1, ends as kUnknown, those behind it on its queue pair as `behind`, and
  // all later posts as kFlushed (E3). Of the verbs from `break_at` on, the first `applied` take effect.
  uint64_t break_at = kNever;
  uint64_t applied = 0;
  VerbStatus behind = VerbStatus::kFlushed;
  // Whether the server can be reached again after that; and how often at most, after that or without it.
  bool can_reconnect = false;
  uint64_t reconnects_left = kNever;

  // What becomes of control messages: they pass, end as kFlushed, or wait until they pass.
  enum class Calls : uint8_t { kPass, kFail, kWait };
  Calls calls = Calls::kPass;
  std::vector<ControlCall*> waiting_calls;

  // What happened.
  uint64_t verbs = 0;
  uint64_t torn = 0;
  uint64_t scrambled = 0;
  uint64_t forbidden_writes = 0;
  bool broke = false;
  bool holds_back = false;  // a verb waits for `allowed_verbs`
  // WRITEs that were lost and have not taken effect: they may still land (U1).
  struct LateWrite {
    ServerId server;
    uint64_t offset;
    std::vector<std::byte> bytes;
  };
  std::vector<LateWrite> late_writes;
};

// Lets everything go when it goes: declared behind a session that steps, so that the session can end.
class StepGuard {
 public:
  explicit StepGuard(FaultPlan& plan) : plan_(plan) {}
  StepGuard(const StepGuard&) = delete;
  StepGuard& operator=(const StepGuard&) = delete;
  ~StepGuard() { plan_.allowed_verbs = FaultPlan::kNever; }

 private:
  FaultPlan& plan_;
};

class FaultyEndpoint final : public Endpoint {
 public:
  // `plan` outlives the endpoint.
  FaultyEndpoint(std::unique_ptr<Endpoint> below, FaultPlan& plan)
      : below_(std::move(below)), plan_(plan) {}

  void Post(Batch& batch) override;
  void Post(ControlCall& call) override;
  size_t Poll() override;

  void Post(QueuePairRequest& request) override;
  uint64_t BrokenQueuePairId(ServerId server) const override {
    return below_->BrokenQueuePairId(server);
  }
  bool IsAttached(ServerId server) const override { return below_->IsAttached(server); }
  const Limits& limits() const override { return below_->limits(); }
  BufferPool& buffers() override { return below_->buffers(); }

 private:
  // One verb on its way.
  struct Single {
    InlineBatch<1> batch;
    Completion done;
    uint32_t delay = 0;
    bool posted = false;
    // What it ends as when the connection was lost: kPending if it was not.
    VerbStatus lost = VerbStatus::kPending;
    // The second reading of a torn READ.
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

  std::unique_ptr<Endpoint> below_;
  FaultPlan& plan_;
  std::deque<std::unique_ptr<Flight>> flights_;
  std::set<ServerId> broken_;
  std::vector<ControlCall*> lost_calls_;
  std::vector<QueuePairRequest*> ended_requests_;
};

}  // namespace gossamer
