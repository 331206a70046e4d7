// Transport: batches and calls between the endpoint and the memory server.
#include "common/fabric/sim/queue_pair.h"

#include <algorithm>
#include <cstring>

#include "common/fabric/sim/endpoint.h"
#include "common/fabric/sim/sim.h"

namespace gossamer::sim {
namespace {

// `call`: null if no caller waits for it.
CallInFlight& NewCall(SimNetwork& network, QueuePair& queue_pair, ControlCall* call,
                      const std::array<std::byte, kMaxControlBytes>& request, uint32_t bytes) {
  CallInFlight& made = network.calls.Take();
  made.kind = EventKind::kCallArrives;
  made.queue_pair = &queue_pair;
  made.call = call;
  made.is_lost = false;
  made.size = bytes;
  made.bytes = request;
  return made;
}

}  // namespace

void QueuePair::Post(Batch& batch) {
  Transit& transit = network_.transits.Take();
  transit.queue_pair = this;
  transit.batch = &batch;
  transit.leaves_at = endpoint_->posts_at();
  transit.valid_verbs = 0;
  transit.refused = false;
  for (Verb& verb : batch.verbs()) {
    verb.status = VerbStatus::kPending;
    if (refused_) {
      verb.status = VerbStatus::kFlushed;
    } else if (!server_.Accepts(verb)) {
      verb.status = VerbStatus::kRemoteAccess;
      transit.refused = refused_ = true;
    } else {
      ++transit.valid_verbs;
    }
  }
  transit.unfinished = transit.valid_verbs;
  if (is_told()) TellPosted(batch);
  unsent_.Push(transit);
  SendMore();
}

void QueuePair::SendMore() {
  while (!unsent_.empty()) {
    Transit& transit = *unsent_.first();
    const uint32_t after = verbs_in_flight_ + transit.valid_verbs;
    if (verbs_in_flight_ != 0 && after > network_.options().max_outstanding_verbs) return;
    if (transit.leaves_at > network_.now()) {
      transit.kind = EventKind::kTransitLeaves;
      return network_.events.Arm(transit, transit.leaves_at);
    }
    unsent_.Pop();
    verbs_in_flight_ = after;
    in_flight_.Push(transit);
    if (next_to_answer_ == nullptr) next_to_answer_ = &transit;
    Nanoseconds departure = network_.now();
    for (const Verb& verb : transit.batch->verbs().first(transit.valid_verbs)) {
      const uint32_t bytes = verb.is_write() ? verb.length : 0;
      departure = client_.nic.Serve(network_.costs(), network_.now(), bytes);
    }
    const Nanoseconds lag = network_.LagOf(*transit.batch, client_, server_);
    // Requests arrive in order. Overtaking happens at the memory server.
    last_arrival_ = std::max(last_arrival_, departure + network_.FlightTime() + lag);
    transit.kind = EventKind::kTransitArrives;
    network_.events.Arm(transit, last_arrival_);
  }
}

void QueuePair::Arrive(Transit& transit) {
  for (Verb& verb : transit.batch->verbs().first(transit.valid_verbs)) AddOperation(transit, verb);
  if (BreaksNow()) return;
  if (transit.unfinished == 0) AnswerFinished();
  StartEligible();
}

void QueuePair::AnswerFinished() {
  // A transit that is armed has not arrived yet: its event continues here.
  while (next_to_answer_ != nullptr && next_to_answer_->unfinished == 0 &&
         next_to_answer_->armed == 0) {
    Transit& transit = *next_to_answer_;
    next_to_answer_ = transit.next;
    uint64_t bytes = 0;
    for (const Verb& verb : transit.batch->verbs().first(transit.valid_verbs)) {
      if (verb.is_read()) bytes += verb.length;
    }
    const Nanoseconds departure = server_.answers.Serve(network_.costs(), network_.now(), bytes);
    last_answer_ =
        std::max(last_answer_, departure + network_.FlightTime() + network_.ExtraDelay());
    transit.kind = EventKind::kTransitDelivers;
    network_.events.Arm(transit, last_answer_);
  }
}

void QueuePair::Deliver(Transit& transit) {
  if (BreaksNow()) return;  // its answer is lost
  in_flight_.Pop();
  verbs_in_flight_ -= transit.valid_verbs;
  network_.MayStopBehind(*transit.batch, *endpoint_);
  endpoint_->Complete(*transit.batch);
  const bool refused = transit.refused;
  network_.transits.Give(transit);
  if (refused) {
    BreakRefused();
  } else {
    SendMore();
  }
}

void QueuePair::Post(ControlCall& call) {
  CallInFlight& in_flight = NewCall(network_, *this, &call, call.request,
                                    std::min<uint32_t>(call.request_bytes, kMaxControlBytes));
  call.status = VerbStatus::kPending;
  calls_.Push(in_flight);
  const Nanoseconds departure = client_.nic.Serve(network_.costs(), network_.now(), in_flight.size);
  last_call_arrival_ = std::max(last_call_arrival_, departure + network_.FlightTime() +
                                                        network_.CallDelay() + server_.Slowness());
  network_.events.Arm(in_flight, last_call_arrival_);
}

void QueuePair::Arrive(CallInFlight& call) {
  // An earlier call may have been postponed to the same time after this one was.
  const Nanoseconds stopped_until = server_.stopped_until();
  if (stopped_until > network_.now()) {
    if (call.call != nullptr) {
      endpoint_->Meets(SimFault::Kind::kStopped, server_.number(), stopped_until);
    }
    return network_.events.Arm(call, stopped_until);
  }
  if (IsBehindAnother(call)) {
    return network_.events.Arm(call, std::max(network_.now(), late_call_arrival_));
  }
  if (BreaksNow()) return;  // the call arrives late, or never
  const bool is_awaited = call.call != nullptr;
  const CallLoss loss = is_awaited ? network_.DrawCallLoss() : CallLoss::kNone;
  const bool is_handled = loss == CallLoss::kNone || loss == CallLoss::kAnswer;
  if (loss == CallLoss::kLate) {
    // The memory server gets to the request after its caller has given up, and to all later calls
    // of this queue pair after that.
    CallInFlight& late = NewCall(network_, *this, nullptr, call.bytes, call.size);
    for (IntrusiveQueue<CallInFlight> all = calls_.TakeAll(); !all.empty();) {
      CallInFlight& one = all.Pop();
      calls_.Push(one);
      if (&one == &call) calls_.Push(late);
    }
    const Nanoseconds given_up_at =
        std::max(last_reply_, network_.now() + network_.options().connection_timeout.count());
    late_call_arrival_ = given_up_at + 1 + network_.LateCallTime();
    last_call_arrival_ = std::max(last_call_arrival_, late_call_arrival_);
    network_.events.Arm(late, late_call_arrival_);
  }
  const Nanoseconds departure = is_handled ? server_.Handle(call, client_.uuid) : network_.now();
  if (!is_awaited) {
    calls_.Pop();
    network_.calls.Give(call);
    return;
  }
  call.is_lost = loss != CallLoss::kNone;
  const Nanoseconds reply = call.is_lost
                                ? network_.now() + network_.options().connection_timeout.count()
                                : departure + network_.FlightTime() + network_.ExtraDelay();
  last_reply_ = std::max(last_reply_, reply);
  if (call.is_lost) {
    endpoint_->Meets(SimFault::Kind::kCall, server_.number(),
                     std::max(last_reply_, late_call_arrival_));
  }
  call.kind = EventKind::kCallDelivers;
  network_.events.Arm(call, last_reply_);
}

bool QueuePair::IsBehindAnother(const CallInFlight& call) const {
  const CallInFlight* first = calls_.first();
  while (first->kind != EventKind::kCallArrives) first = first->next;
  return first != &call;
}

void QueuePair::Deliver(CallInFlight& call) {
  if (BreaksNow()) return;  // its answer is lost
  calls_.Pop();
  if (call.is_lost) {
    call.call->status = VerbStatus::kUnknown;
  } else {
    std::memcpy(call.call->reply.data(), call.bytes.data(), call.size);
    call.call->reply_bytes = call.size;
    call.call->status = VerbStatus::kSuccess;
  }
  endpoint_->Complete(*call.call);
  network_.calls.Give(call);
}

}  // namespace gossamer::sim
