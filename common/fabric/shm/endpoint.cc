#include "common/fabric/shm/endpoint.h"

#include <time.h>

#include <algorithm>
#include <utility>

namespace gossamer::shm {
namespace {

void SetStatus(Batch& batch, VerbStatus status) {
  for (Verb& verb : batch.verbs()) verb.status = status;
}

// Nanoseconds, advancing at the kernel's timer ticks, every 1 to 10 ms. Reading it takes no system
// call.
uint64_t CoarseTime() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

void ShmEndpoint::Post(Batch& batch) {
  if (const ClientQueuePair* queue_pair = Find(batch.server())) queue_pair->PrefetchFor(batch);
  posted_.Push(batch);
}

void ShmEndpoint::Prefetch(ServerId server, uint64_t offset, uint32_t length) {
  if (const ClientQueuePair* queue_pair = Find(server)) queue_pair->PrefetchRegion(offset, length);
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
  if (IsIdle()) return 0;
  const uint64_t now = CoarseTime();
  const bool check_peer = std::exchange(last_check_, now) != now;
  // First, so that no verb is performed on the memory of a server known to be lost.
  size_t completed = 0;
  if (calls_outstanding_ != 0 || check_peer) completed += PollCalls(check_peer);
  completing_.Append(flushed_.TakeAll());
  completed += CompleteAll(completing_);
  if (requests_outstanding_ != 0) completed += PollOpenings();
  // After the resumptions above, so that what they post comes last, in order.
  const IntrusiveQueue<Batch> batches = posted_.TakeAll();
  Perform(batches);
  completing_.Append(batches);
  return completed + CompleteAll(completing_);
}

void ShmEndpoint::Perform(const IntrusiveQueue<Batch>& batches) {
  if (batches.empty()) return;
  ClientQueuePair* entered = nullptr;
  for (Batch* batch = batches.first(); batch != nullptr; batch = batch->next) {
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

void ShmEndpoint::Post(QueuePairRequest& request) {
  ++requests_outstanding_;
  const auto is_same = [&](const Opening& opening) {
    return opening.request->server == request.server;
  };
  if (std::ranges::any_of(openings_, is_same)) {
    return End(request, MakeError(Code::kInvalidArgument, "a queue pair is asked for already"));
  }
  ClientQueuePair* const old = Find(request.server);
  if (old != nullptr) {
    // From here on nothing is posted on the old queue pair, whether or not a new one follows.
    old->Break(ended_calls_);
    FlushPosted(request.server);
  }
  Result<Handshake> handshake = port_.StartHandshake(
      request.server, BrokenQueuePairId(request.server), request.also_destroys);
  if (!handshake) return End(request, handshake.error());
  openings_.push_back({&request, std::move(handshake.value())});
}

void ShmEndpoint::End(QueuePairRequest& request, Status status) {
  request.status = std::move(status);
  ended_requests_.Push(request);
}

size_t ShmEndpoint::PollOpenings() {
  std::erase_if(openings_, [this](Opening& opening) {
    const Result<ConnectState> state = opening.handshake.Step();
    if (state && state.value() == ConnectState::kUnderWay) return false;
    if (!state) {
      End(*opening.request, state.error());
      return true;
    }
    Result<QueuePairGrant> grant = port_.Accept(opening.request->server, opening.handshake);
    // Flush what was posted without a working queue pair (E5).
    FlushPosted(opening.request->server);
    if (grant) Install(opening.request->server, std::move(grant.value()));
    End(*opening.request, grant ? Status(Ok()) : Status(grant.error()));
    return true;
  });
  completing_requests_.Append(ended_requests_.TakeAll());
  const size_t completed = CompleteAll(completing_requests_);
  requests_outstanding_ -= static_cast<uint32_t>(completed);
  return completed;
}

void ShmEndpoint::Install(ServerId server, QueuePairGrant grant) {
  const size_t index = ToInteger(server);
  if (index >= queue_pairs_.size()) queue_pairs_.resize(index + 1);
  queue_pairs_[index] =
      std::make_unique<ClientQueuePair>(std::move(grant), port_.connection_timeout_ms());
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
