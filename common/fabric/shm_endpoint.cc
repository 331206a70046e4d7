#include "common/fabric/shm_endpoint.h"

#include <utility>

namespace gossamer::shm {
namespace {

void SetStatus(Batch& batch, VerbStatus status) {
  for (Verb& verb : batch.verbs()) verb.status = status;
}

}  // namespace

void ShmEndpoint::Post(Batch& batch) {
  if (const ClientQueuePair* queue_pair = Find(batch.server())) queue_pair->PrefetchFor(batch);
  posted_.Push(batch);
}

void ShmEndpoint::Post(ControlCall& call) {
  ++calls_outstanding_;
  ClientQueuePair* const queue_pair = Find(call.server);
  if (queue_pair != nullptr && queue_pair->working()) {
    queue_pair->Post(call);
  } else {
    call.status = VerbStatus::kFlushed;
    ended_calls_.Push(call);
  }
}

size_t ShmEndpoint::Poll() {
  const bool is_idle =
      posted_.empty() && flushed_.empty() && completing_.empty() && calls_outstanding_ == 0;
  if (is_idle) return 0;
  const bool check_peer = ++polls_ % kPollsPerCheck == 0;
  // First, so that a lost server is known before verbs are performed on what it leaves behind.
  size_t completed = 0;
  if (calls_outstanding_ != 0 || check_peer) completed += PollCalls(check_peer);
  completing_.Append(flushed_.TakeAll());
  completed += CompleteAll(completing_);
  // Taken after the resumptions above, so that what they post joins the end, in order.
  const IntrusiveQueue<Batch> batches = posted_.TakeAll();
  Perform(batches);
  completing_.Append(batches);
  return completed + CompleteAll(completing_);
}

void ShmEndpoint::Perform(const IntrusiveQueue<Batch>& batches) {
  if (batches.empty()) return;
  ClientQueuePair* entered = nullptr;
  for (Batch* batch = &batches.front(); batch != nullptr; batch = batch->next) {
    ClientQueuePair* const queue_pair = Find(batch->server());
    if (queue_pair == nullptr) {
      SetStatus(*batch, VerbStatus::kFlushed);
      continue;
    }
    if (!queue_pair->entered) {
      queue_pair->entered = true;
      queue_pair->next_entered = std::exchange(entered, queue_pair);
      queue_pair->Enter();
    }
    queue_pair->Perform(*batch);
  }
  for (; entered != nullptr; entered = entered->next_entered) {
    entered->entered = false;
    entered->Leave();
  }
}

size_t ShmEndpoint::PollCalls(bool check_peer) {
  for (const std::unique_ptr<ClientQueuePair>& queue_pair : queue_pairs_) {
    if (queue_pair != nullptr && (check_peer || queue_pair->has_calls())) {
      queue_pair->PollCalls(check_peer, ended_calls_);
    }
  }
  completing_calls_.Append(ended_calls_.TakeAll());
  const size_t completed = CompleteAll(completing_calls_);
  calls_outstanding_ -= static_cast<uint32_t>(completed);
  return completed;
}

Status ShmEndpoint::Attach(ServerId server) {
  if (Find(server) != nullptr) return Ok();
  BOOST_OUTCOME_TRY(grant, port_.OpenQueuePair(server, nullptr));
  const size_t index = ToInteger(server);
  if (index >= queue_pairs_.size()) queue_pairs_.resize(index + 1);
  queue_pairs_[index] =
      std::make_unique<ClientQueuePair>(std::move(grant), port_.connection_timeout_ms());
  return Ok();
}

Status ShmEndpoint::Reconnect(ServerId server) {
  ClientQueuePair* const old = Find(server);
  if (old == nullptr) return Attach(server);
  // From here on nothing is posted on the old one, whether or not there will be a new one.
  old->Break(ended_calls_);
  FlushPosted(server);
  BOOST_OUTCOME_TRY(grant, port_.OpenQueuePair(server, &old->grant()));
  queue_pairs_[ToInteger(server)] =
      std::make_unique<ClientQueuePair>(std::move(grant), port_.connection_timeout_ms());
  return Ok();
}

void ShmEndpoint::FlushPosted(ServerId server) {
  IntrusiveQueue<Batch> kept;
  while (!posted_.empty()) {
    Batch& batch = posted_.Pop();
    if (batch.server() == server) {
      SetStatus(batch, VerbStatus::kFlushed);
      flushed_.Push(batch);
    } else {
      kept.Push(batch);
    }
  }
  posted_ = kept;
}

}  // namespace gossamer::shm
