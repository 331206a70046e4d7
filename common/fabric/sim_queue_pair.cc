#include "common/fabric/sim_queue_pair.h"

#include <algorithm>
#include <cstring>

#include "common/fabric/sim_endpoint.h"
#include "common/fabric/sim_network.h"

namespace gossamer::sim {

void QueuePair::Post(Batch& batch) {
  Transit& transit = network_.transits.Take();
  transit.kind = EventKind::kTransitArrives;
  transit.queue_pair = this;
  transit.batch = &batch;
  transit.valid_verbs = 0;
  transit.refused = false;
  transit.answered = false;
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
  unsent_.Push(transit);
  SendMore();
}

void QueuePair::SendMore() {
  while (!unsent_.empty()) {
    Transit& transit = unsent_.front();
    const uint32_t after = verbs_in_flight_ + transit.valid_verbs;
    if (verbs_in_flight_ != 0 && after > network_.options().max_outstanding_verbs) return;
    unsent_.Pop();
    verbs_in_flight_ = after;
    in_flight_.Push(transit);
    if (next_to_answer_ == nullptr) next_to_answer_ = &transit;
    Nanoseconds departure = network_.now();
    for (const Verb& verb : transit.batch->verbs().first(transit.valid_verbs)) {
      const uint32_t bytes = verb.opcode == Opcode::kWrite ? verb.length : 0;
      departure = client_.nic.Serve(network_.costs(), network_.now(), bytes);
    }
    network_.events.Arm(transit, departure + network_.costs().one_way_ns);
  }
}

void QueuePair::Arrive(Transit& transit) {
  for (Verb& verb : transit.batch->verbs().first(transit.valid_verbs)) {
    Operation& operation = network_.operations.Take();
    operation.queue_pair = this;
    operation.transit = &transit;
    operation.verb = &verb;
    operation.state = Operation::State::kWaiting;
    operation.opcode = verb.opcode;
    operation.space = verb.space;
    operation.fence = verb.fence;
    operation.length = verb.length;
    operation.offset = verb.remote_offset;
    operation.compare = verb.compare;
    operation.swap_or_add = verb.swap_or_add;
    operation.local = verb.local.data;
    operation.ready_at = server_.requests.Serve(network_.costs(), network_.now(),
                                                verb.opcode == Opcode::kWrite ? verb.length : 0);
    operation.next = nullptr;
    operation.previous = last_operation_;
    (last_operation_ == nullptr ? first_operation_ : last_operation_->next) = &operation;
    last_operation_ = &operation;
  }
  if (transit.unfinished == 0) AnswerFinished();
  StartEligible();
}

void QueuePair::StartEligible() {
  bool write_before = false;
  bool atomic_before = false;
  bool read_before = false;
  for (Operation* operation = first_operation_; operation != nullptr; operation = operation->next) {
    const bool is_read = operation->opcode == Opcode::kRead;
    if (operation->state == Operation::State::kWaiting) {
      // O1, O2; O3, O4; O5.
      const bool blocked = (write_before && !is_read) ||
                           (atomic_before && (operation->opcode != Opcode::kWrite)) ||
                           (operation->fence && (read_before || atomic_before));
      if (blocked) return;  // in the order posted
      Begin(*operation);
    }
    (is_read ? read_before : operation->is_atomic() ? atomic_before : write_before) = true;
  }
}

void QueuePair::Begin(Operation& operation) {
  const SimCosts& costs = network_.costs();
  operation.state = Operation::State::kBegun;
  Nanoseconds at = std::max(operation.ready_at, network_.now());
  if (operation.is_atomic()) {
    const bool on_chip = operation.space == Space::kLockTable && server_.on_chip_locks();
    Nanoseconds& slot = server_.AtomicSlot(operation);
    at = std::max(at, slot) + (on_chip ? costs.on_chip_atomic_ns : costs.dram_atomic_ns);
    slot = at;
  } else {
    at += operation.opcode == Opcode::kRead ? costs.pcie_read_ns : costs.pcie_write_ns;
  }
  last_effect_ = std::max(at, last_effect_);
  network_.events.Arm(operation, last_effect_);
}

void QueuePair::Run(Operation& operation) {
  server_.Apply(operation);
  Finish(operation);
}

void QueuePair::Unlink(Operation& operation) {
  (operation.previous == nullptr ? first_operation_ : operation.previous->next) = operation.next;
  (operation.next == nullptr ? last_operation_ : operation.next->previous) = operation.previous;
}

void QueuePair::Finish(Operation& operation) {
  ++network_.counters.verbs;
  Unlink(operation);
  if (operation.transit != nullptr) {
    operation.verb->status = VerbStatus::kSuccess;
    if (--operation.transit->unfinished == 0) AnswerFinished();
  }
  network_.operations.Give(operation);
  StartEligible();
}

void QueuePair::AnswerFinished() {
  while (next_to_answer_ != nullptr && next_to_answer_->unfinished == 0 &&
         next_to_answer_->armed == 0) {
    Transit& transit = *next_to_answer_;
    uint64_t bytes = 0;
    for (const Verb& verb : transit.batch->verbs().first(transit.valid_verbs)) {
      if (verb.opcode == Opcode::kRead) bytes += verb.length;
    }
    const Nanoseconds departure = server_.answers.Serve(network_.costs(), network_.now(), bytes);
    last_answer_ = std::max(last_answer_, departure + network_.costs().one_way_ns);
    transit.kind = EventKind::kTransitDelivers;
    transit.answered = true;
    network_.events.Arm(transit, last_answer_);
    next_to_answer_ = transit.next;
  }
}

void QueuePair::Deliver(Transit& transit) {
  in_flight_.Pop();
  verbs_in_flight_ -= transit.valid_verbs;
  endpoint_->Complete(*transit.batch);
  const bool refused = transit.refused;
  network_.transits.Give(transit);
  if (refused) {
    Break();
  } else {
    SendMore();
  }
}

void QueuePair::Post(ControlCall& call) {
  CallInFlight& in_flight = network_.calls.Take();
  in_flight.kind = EventKind::kCallArrives;
  in_flight.queue_pair = this;
  in_flight.call = &call;
  in_flight.size = std::min<uint32_t>(call.request_bytes, kMaxControlBytes);
  std::memcpy(in_flight.bytes.data(), call.request.data(), in_flight.size);
  call.status = VerbStatus::kPending;
  calls_.Push(in_flight);
  const Nanoseconds departure = client_.nic.Serve(network_.costs(), network_.now(), in_flight.size);
  last_call_arrival_ = std::max(last_call_arrival_, departure + network_.costs().one_way_ns);
  network_.events.Arm(in_flight, last_call_arrival_);
}

void QueuePair::Arrive(CallInFlight& call) {
  last_reply_ =
      std::max(last_reply_, server_.Handle(call, client_.uuid) + network_.costs().one_way_ns);
  call.kind = EventKind::kCallDelivers;
  network_.events.Arm(call, last_reply_);
}

void QueuePair::Deliver(CallInFlight& call) {
  calls_.Pop();
  std::memcpy(call.call->reply.data(), call.bytes.data(), call.size);
  call.call->reply_bytes = call.size;
  call.call->status = VerbStatus::kSuccess;
  endpoint_->Complete(*call.call);
  network_.calls.Give(call);
}

void QueuePair::Break() {
  if (broken_) return;
  broken_ = true;
  bool unknown = !refused_;
  for (IntrusiveQueue<Transit>* queue : {&in_flight_, &unsent_}) {
    while (!queue->empty()) {
      Transit& transit = queue->Pop();
      for (Verb& verb : transit.batch->verbs()) {
        if (verb.status != VerbStatus::kPending) continue;
        verb.status = unknown ? VerbStatus::kUnknown : VerbStatus::kFlushed;
        unknown = false;
      }
      network_.events.Disarm(transit);
      endpoint_->Complete(*transit.batch);
      network_.transits.Give(transit);
    }
  }
  while (!calls_.empty()) {
    CallInFlight& call = calls_.Pop();
    network_.events.Disarm(call);
    call.call->status = VerbStatus::kUnknown;
    endpoint_->Complete(*call.call);
    network_.calls.Give(call);
  }
  next_to_answer_ = nullptr;
  endpoint_->QueuePairBroke(*this);
}

void QueuePair::Settle() {
  while (first_operation_ != nullptr) {
    Operation& operation = *first_operation_;
    Unlink(operation);
    network_.events.Disarm(operation);
    network_.operations.Give(operation);
  }
}

}  // namespace gossamer::sim
