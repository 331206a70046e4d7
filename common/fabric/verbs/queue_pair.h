// An endpoint's state of its queue pair to one memory server: exact accounts of the send queue, of
// control messages, and of what waits for room.
//
// States: connected -> breaking (a verb failed or the peer is lost: the queue pair is in its error
// state, and what was posted is being flushed) -> broken (nothing is left; `Reconnect` starts
// again).
//
// Invariants: entries of `in_flight` are in posted order, and each entry's last work request is
// signalled, so completions come in this order, too. The sum of the entries' verbs and `free_verbs`
// is `window`. A batch of more than `window` verbs (if the server wants one verb at a time) is
// posted in pieces, each after the previous one has completed, with nothing in between.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "common/fabric/intrusive_queue.h"
#include "common/fabric/verbs/connect.h"
#include "common/fabric/work_request.h"
#include "common/ring_queue.h"

namespace gossamer::verbs {

struct QueuePair;

// An address as work requests have it.
inline uint64_t AddressNumber(const std::byte* data) { return reinterpret_cast<uintptr_t>(data); }

// A work request id: its queue pair and its number.
//   63    48 47    33 32      31                               0
//   | server | epoch | reply? | sequence, or slot of the reply |
struct WorkId {
  static constexpr uint64_t kReplyBit = uint64_t{1} << 32;
  static constexpr uint16_t kEpochMask = 0x7fff;

  uint64_t bits = 0;

  static uint64_t Base(ServerId server, uint16_t epoch) {
    return uint64_t{ToInteger(server)} << 48 | uint64_t{static_cast<uint16_t>(epoch & kEpochMask)}
                                                   << 33;
  }
  ServerId server() const { return static_cast<ServerId>(bits >> 48); }
  bool is_reply() const { return (bits & kReplyBit) != 0; }
  uint32_t number() const { return static_cast<uint32_t>(bits); }
  // False if the completion belongs to an earlier queue pair.
  bool IsOf(const QueuePair& queue_pair) const;
};

// One doorbell's worth of work requests.
struct Posted {
  enum class Kind : uint8_t { kBatch, kCall, kNudge };
  Kind kind = Kind::kBatch;
  uint32_t requests = 0;
  Batch* batch = nullptr;
  uint32_t first_verb = 0;  // of the batch; these requests start there
};

// Detects a lack of progress. `Check` gets the number of steps done so far.
class Watch {
 public:
  using Clock = std::chrono::steady_clock;
  // Time since the last step, or since the first check after work appeared.
  Clock::duration Check(bool busy, uint64_t steps, Clock::time_point now) {
    if (!busy || !was_busy_ || steps != steps_) since_ = now;
    was_busy_ = busy;
    steps_ = steps;
    return now - since_;
  }

 private:
  bool was_busy_ = false;
  uint64_t steps_ = 0;
  Clock::time_point since_;
};

enum class QueuePairState : uint8_t { kConnected, kBreaking, kBroken };

struct QueuePair {
  QueuePair(ServerId id, uint32_t verbs) : server(id), window(verbs), free_verbs(verbs) {
    in_flight.Reserve(SendDepth(verbs));
  }

  // Verbs to post with one doorbell when `verbs` are left of a batch.
  uint32_t PieceOf(size_t verbs) const {
    return static_cast<uint32_t>(std::min<size_t>(verbs, window));
  }

  uint64_t work_id_base() const { return WorkId::Base(server, epoch); }

  // Each posts one work request. Returns: false if the device refuses, which means that the queue
  // pair is unusable.
  // Requires: a free send and a free reply.
  bool PostCall(ControlCall& call);
  // A WRITE of length 0, which shows whether the peer lives. Posts nothing if too many are in
  // flight.
  bool PostNudge();
  // `slot`: of a reply.
  bool PostReceive(uint32_t slot);

  ServerId server;
  QueuePairState state = QueuePairState::kBroken;
  bool was_connected = false;
  bool failure_seen = false;
  VerbStatus behind_failure = VerbStatus::kUnknown;  // of everything that completes after it
  uint16_t epoch = 0;  // Distinguishes completions of earlier queue pairs.
  Connection connection;
  RemoteMemory memory[2];  // by Space

  RingQueue<Posted> in_flight;
  uint32_t window;  // maximum of verbs posted and not completed
  uint32_t free_verbs;
  uint32_t free_nudges = kNudges;
  uint32_t next_sequence = 0;   // of the next work request
  uint32_t first_sequence = 0;  // of the first one of in_flight.front()
  IntrusiveQueue<Batch> waiting;

  // Control messages. Requests use slots 0 … kControlDepth - 1 of `slots`, replies the next
  // kControlDepth.
  BufferLease slots;
  uint32_t free_sends = kControlDepth;
  uint32_t free_replies = kControlDepth;
  uint32_t next_request = 0;
  uint32_t next_reply = 0;
  IntrusiveQueue<ControlCall> calls_waiting;
  IntrusiveQueue<ControlCall> calls_sent;

  uint64_t steps = 0;  // completions of one-sided verbs and of SENDs
  Watch verbs_watch;
  Watch calls_watch;
  Watch breaking_watch;
  Watch::Clock::time_point peer_checked;
};

inline bool WorkId::IsOf(const QueuePair& queue_pair) const {
  return ((bits >> 33) & kEpochMask) == (queue_pair.epoch & kEpochMask);
}

}  // namespace gossamer::verbs
