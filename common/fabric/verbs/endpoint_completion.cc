// How an endpoint's verbs end: completions, failures, lost peers.

#include <glog/logging.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "common/fabric/verbs/endpoint.h"
#include "common/fabric/verbs/wire.h"

namespace gossamer::verbs {
namespace {

constexpr uint32_t kPollsPerCheck = 32;
constexpr uint32_t kCompletionsPerPoll = 32;
constexpr auto kPeerCheckInterval = std::chrono::milliseconds(10);

// Only a verb that the server refuses is surely not applied. This side may fail (IBV_WC_LOC_…)
// after the server has applied the verb: the answer finds no place, or SoftRoCE has no route left
// for a retransmission.
VerbStatus Classify(ibv_wc_status status) {
  const bool is_refused = status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR;
  return is_refused ? VerbStatus::kRemoteAccess : VerbStatus::kUnknown;
}

// Whether a fault of this side is the cause.
bool IsOurs(ibv_wc_status status) {
  return status == IBV_WC_LOC_LEN_ERR || status == IBV_WC_LOC_QP_OP_ERR ||
         status == IBV_WC_LOC_PROT_ERR;
}

}  // namespace

// ---- Completing

size_t VerbsEndpoint::Poll() {
  PollQueue();
  if (++polls_ % kPollsPerCheck == 0) CheckPeers();
  const size_t opened = openings_.empty() && ended_requests_.empty() ? 0 : PollOpenings();
  return opened + Resume();
}

bool VerbsEndpoint::IsIdle() const {
  const auto is_idle = [](const std::unique_ptr<QueuePair>& queue_pair) {
    return queue_pair == nullptr ||
           (queue_pair->in_flight.empty() && queue_pair->waiting.empty() &&
            queue_pair->calls_sent.empty() && queue_pair->calls_waiting.empty());
  };
  return finished_.empty() && finished_calls_.empty() && completing_.empty() &&
         completing_calls_.empty() && openings_.empty() && ended_requests_.empty() &&
         completing_requests_.empty() && std::ranges::all_of(queue_pairs_, is_idle);
}

size_t VerbsEndpoint::PollQueue() {
  std::array<ibv_wc, kCompletionsPerPoll> completions;
  const int count = ibv_poll_cq(queue_.get(), completions.size(), completions.data());
  for (int i = 0; i < count; ++i) OnCompletion(completions[static_cast<size_t>(i)]);
  return count < 0 ? 0 : static_cast<size_t>(count);
}

void VerbsEndpoint::OnCompletion(const ibv_wc& completion) {
  const WorkId id{completion.wr_id};
  QueuePair* queue_pair = Find(id.server());
  // From a queue pair before a reconnect, or from a failed attempt to connect.
  if (queue_pair == nullptr || !id.IsOf(*queue_pair)) return;
  if (id.is_reply()) {
    OnReply(*queue_pair, completion);
    return;
  }
  const uint32_t sequence = id.number();
  ++queue_pair->steps;
  if (completion.status == IBV_WC_SUCCESS) {
    OnSent(*queue_pair, sequence);
  } else {
    OnSendFailure(*queue_pair, sequence, completion.status);
  }
  if (queue_pair->state == QueuePairState::kConnected) {
    PostWaiting(*queue_pair);
  } else if (queue_pair->state == QueuePairState::kBreaking && queue_pair->in_flight.empty()) {
    queue_pair->state = QueuePairState::kBroken;
  }
}

// Everything posted up to `sequence` has succeeded.
void VerbsEndpoint::OnSent(QueuePair& queue_pair, uint32_t sequence) {
  while (!queue_pair.in_flight.empty()) {
    const uint32_t done = sequence - queue_pair.first_sequence + 1;  // counted from the first entry
    if (done < queue_pair.in_flight.front().requests || done > (uint32_t{1} << 31)) return;
    CompleteFirst(queue_pair);
  }
}

// What was posted before the first failure has succeeded. What was posted after it is not applied
// if that was refused; otherwise nothing is known of it.
void VerbsEndpoint::OnSendFailure(QueuePair& queue_pair, uint32_t sequence, ibv_wc_status status) {
  OnSent(queue_pair, sequence - 1);
  if (queue_pair.in_flight.empty()) return;
  const Posted first = queue_pair.in_flight.front();
  const uint32_t index = sequence - queue_pair.first_sequence;
  if (index >= first.requests) return;
  // When a SEND or a nudge is the first to fail, the first verb behind it is the unknown one.
  if (!queue_pair.failure_seen && first.kind == Posted::Kind::kBatch) {
    const std::span<Verb> verbs = first.batch->verbs().subspan(first.first_verb);
    for (Verb& verb : verbs.first(index)) verb.status = VerbStatus::kSuccess;
    verbs[index].status = Classify(status);
    if (IsOurs(status)) {
      LOG(WARNING) << "a verb to memory server " << ToInteger(queue_pair.server)
                   << " failed on this side: " << ibv_wc_status_str(status);
    }
    queue_pair.failure_seen = true;
    const bool is_refused = verbs[index].status == VerbStatus::kRemoteAccess;
    queue_pair.behind_failure = is_refused ? VerbStatus::kFlushed : VerbStatus::kUnknown;
  }
  if (queue_pair.state == QueuePairState::kConnected) Break(queue_pair);
  if (index + 1 == first.requests) CompleteFirst(queue_pair);
}

void VerbsEndpoint::CompleteFirst(QueuePair& queue_pair) {
  const Posted posted = queue_pair.in_flight.PopFront();
  queue_pair.first_sequence += posted.requests;
  switch (posted.kind) {
    case Posted::Kind::kCall: ++queue_pair.free_sends; return;
    case Posted::Kind::kNudge: ++queue_pair.free_nudges; return;
    case Posted::Kind::kBatch: break;
  }
  queue_pair.free_verbs += posted.requests;
  const uint32_t next_verb = posted.first_verb + posted.requests;
  if (next_verb < posted.batch->verbs().size() && !queue_pair.failure_seen) [[unlikely]] {
    for (Verb& verb : posted.batch->verbs().first(next_verb)) verb.status = VerbStatus::kSuccess;
    if (queue_pair.state == QueuePairState::kConnected) {
      Submit(queue_pair, *posted.batch, next_verb);
    } else {
      Finish(*posted.batch, VerbStatus::kFlushed);
    }
    return;
  }
  Finish(*posted.batch, queue_pair.failure_seen ? queue_pair.behind_failure : VerbStatus::kSuccess);
}

void VerbsEndpoint::OnReply(QueuePair& queue_pair, const ibv_wc& completion) {
  if (queue_pair.state != QueuePairState::kConnected) return;
  const uint32_t slot = WorkId{completion.wr_id}.number();
  const std::byte* message = queue_pair.slots.data() + (kControlDepth + slot) * kControlSlotBytes;
  ControlHeader header;
  std::memcpy(&header, message, sizeof header);
  if (completion.status != IBV_WC_SUCCESS || queue_pair.calls_sent.empty() ||
      completion.byte_len < sizeof header || header.bytes > kMaxControlBytes ||
      completion.byte_len != sizeof header + header.bytes ||
      header.sequence != queue_pair.next_reply) {
    Break(queue_pair);
    return;
  }
  ++queue_pair.next_reply;
  ++queue_pair.free_replies;
  ControlCall& call = queue_pair.calls_sent.Pop();
  std::memcpy(call.reply.data(), message + sizeof header, header.bytes);
  call.reply_bytes = header.bytes;
  Finish(call, VerbStatus::kSuccess);
  if (!queue_pair.PostReceive(slot) && queue_pair.state == QueuePairState::kConnected) {
    Break(queue_pair);
  }
  if (queue_pair.state == QueuePairState::kConnected) PostWaiting(queue_pair);
}

void VerbsEndpoint::Finish(Batch& batch, VerbStatus pending_become) {
  for (Verb& verb : batch.verbs()) {
    if (verb.status == VerbStatus::kPending) verb.status = pending_become;
  }
  finished_.Push(batch);
}

void VerbsEndpoint::Finish(ControlCall& call, VerbStatus status) {
  call.status = status;
  finished_calls_.Push(call);
}

// Takes both before it resumes anything: what coroutines end at once (on a broken queue pair) is
// for the next `Poll`.
size_t VerbsEndpoint::Resume() {
  completing_.Append(finished_.TakeAll());
  completing_calls_.Append(finished_calls_.TakeAll());
  const size_t completed = CompleteAll(completing_);
  return completed + CompleteAll(completing_calls_);
}

// ---- Failing

// Ends posted work with an error, and flushes what waits without having been posted.
void VerbsEndpoint::Break(QueuePair& queue_pair) {
  queue_pair.connection.Break();
  queue_pair.state =
      queue_pair.in_flight.empty() ? QueuePairState::kBroken : QueuePairState::kBreaking;
  while (!queue_pair.waiting.empty()) Finish(queue_pair.waiting.Pop(), VerbStatus::kFlushed);
  while (!queue_pair.calls_sent.empty()) Finish(queue_pair.calls_sent.Pop(), VerbStatus::kUnknown);
  while (!queue_pair.calls_waiting.empty()) {
    Finish(queue_pair.calls_waiting.Pop(), VerbStatus::kFlushed);
  }
}

// Completes the rest without completions of the device, which no longer knows the queue pair.
void VerbsEndpoint::EndBreaking(QueuePair& queue_pair) {
  while (!queue_pair.in_flight.empty()) {
    const Posted& first = queue_pair.in_flight.front();
    if (!queue_pair.failure_seen && first.kind == Posted::Kind::kBatch) {
      queue_pair.failure_seen = true;
      queue_pair.behind_failure = VerbStatus::kUnknown;
    }
    CompleteFirst(queue_pair);
  }
  queue_pair.state = QueuePairState::kBroken;
}

// For a device that does not flush: once the queue pair is destroyed, the device does not touch our
// buffers.
void VerbsEndpoint::Collapse(QueuePair& queue_pair) {
  if (queue_pair.connection.id != nullptr && queue_pair.connection.id->qp != nullptr) {
    rdma_destroy_qp(queue_pair.connection.id.get());
  }
  while (PollQueue() != 0) {
  }
  EndBreaking(queue_pair);
}

void VerbsEndpoint::CheckPeers() {
  const Watch::Clock::time_point now = Watch::Clock::now();
  for (const std::unique_ptr<QueuePair>& queue_pair : queue_pairs_) {
    if (queue_pair != nullptr) CheckPeer(*queue_pair, now);
  }
}

// Allows three quarters of the time-out for progress, an eighth for the flush.
void VerbsEndpoint::CheckPeer(QueuePair& queue_pair, Watch::Clock::time_point now) {
  const std::chrono::milliseconds timeout(options_.connection_timeout_ms);
  const bool breaking = queue_pair.state == QueuePairState::kBreaking;
  if (queue_pair.breaking_watch.Check(breaking, 0, now) > timeout / 8) Collapse(queue_pair);
  if (queue_pair.state != QueuePairState::kConnected) return;

  const auto idle = std::max(
      queue_pair.verbs_watch.Check(!queue_pair.in_flight.empty(), queue_pair.steps, now),
      queue_pair.calls_watch.Check(!queue_pair.calls_sent.empty(), queue_pair.next_reply, now));
  if (idle < kPeerCheckInterval) return;
  bool gone = idle > timeout * 3 / 4;
  if (!gone && now - queue_pair.peer_checked > kPeerCheckInterval) {
    queue_pair.peer_checked = now;
    gone = queue_pair.connection.PeerIsGone();
  }
  if (gone) {
    Break(queue_pair);
  } else if (now == queue_pair.peer_checked && !queue_pair.in_flight.empty()) {
    if (!queue_pair.PostNudge()) Break(queue_pair);
  }
}

}  // namespace gossamer::verbs
