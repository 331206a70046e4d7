// The client's side of one shm queue pair: performs verbs on the server's memory, carries control
// calls.
//
// States: working; lost (the server is gone, and no batch has ended as kUnknown yet); broken (all
// later batches are flushed until the endpoint replaces the queue pair).
// Thread-safety: none; belongs to its endpoint.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>

#include "common/fabric/intrusive_queue.h"
#include "common/fabric/shm/compute_port.h"
#include "common/fabric/shm/queue_pair.h"
#include "common/fabric/work_request.h"

namespace gossamer::shm {

class ClientQueuePair {
 public:
  ClientQueuePair(QueuePairGrant grant, uint32_t timeout_ms);
  ClientQueuePair(const ClientQueuePair&) = delete;
  ClientQueuePair& operator=(const ClientQueuePair&) = delete;

  const QueuePairGrant& grant() const { return grant_; }

  // Starts to fetch the memory that the first verbs of `batch` will touch. Perform goes on.
  void PrefetchFor(const Batch& batch) const;
  void PrefetchRegion(uint64_t offset, uint32_t length) const;
  // Bracket a run of `Perform`s.
  void Enter();
  void Leave() { page_.busy.store(0, std::memory_order_release); }
  bool entered = false;
  ClientQueuePair* next_entered = nullptr;
  // Performs the verbs of `batch` in order and sets each status.
  void Perform(Batch& batch);

  // Sends `call` when there is room for it. Requires: the queue pair is not broken.
  void Post(ControlCall& call);
  // Moves ended calls to `ended`. `check_peer`: also check whether the server lives and whether
  // calls are overdue.
  void PollCalls(bool check_peer, IntrusiveQueue<ControlCall>& ended);
  // Ends every call. No batch is performed any more.
  void Break(IntrusiveQueue<ControlCall>& ended);
  bool has_calls() const { return !sent_.empty() || !unsent_.empty(); }
  bool working() const { return state_ == State::kWorking; }

 private:
  enum class State : uint8_t { kWorking, kLost, kBroken };
  using Clock = std::chrono::steady_clock;

  void PrefetchFor(const Verb& verb) const;
  VerbStatus Apply(const Verb& verb);
  VerbStatus ApplyAtomic(const Verb& verb, std::byte* remote);
  void ApplyWrite(const Verb& verb, const SpaceView& view);
  void SendCalls();
  void ReceiveReplies(IntrusiveQueue<ControlCall>& ended);
  void EndOverdueCalls(IntrusiveQueue<ControlCall>& ended);

  QueuePairGrant grant_;
  QueuePairPage& page_;
  std::array<SpaceView, 2> views_;
  const bool fences_lightly_;
  const bool journalled_;
  State state_ = State::kWorking;

  const std::chrono::milliseconds timeout_;
  IntrusiveQueue<ControlCall> unsent_;
  IntrusiveQueue<ControlCall> sent_;
  std::deque<Clock::time_point> posted_at_;  // of the calls in sent_, then of those in unsent_
  uint32_t first_sequence_ = 0;              // of the head of sent_
  uint32_t next_sequence_ = 0;
  uint32_t replies_received_ = 0;  // including replies to abandoned calls
};

}  // namespace gossamer::shm
