// Verbs at their memory server: the order in which they set out, and how they take effect.
#include <algorithm>
#include <cstring>

#include "common/fabric/sim/chance.h"
#include "common/fabric/sim/queue_pair.h"
#include "common/fabric/sim/sim.h"

namespace gossamer::sim {

void QueuePair::AddOperation(Transit& transit, Verb& verb) {
  VerbInFlight& operation = network_.operations.Take();
  static_cast<Verb&>(operation) = verb;
  operation.queue_pair = this;
  operation.transit = &transit;
  operation.posted = &verb;
  operation.state = VerbInFlight::State::kWaiting;
  operation.is_split = false;
  operation.is_clean = false;
  operation.ready_at =
      server_.requests.Serve(network_.costs(), network_.now(), verb.is_write() ? verb.length : 0);
  operation.next = nullptr;
  operation.previous = last_operation_;
  (last_operation_ == nullptr ? first_operation_ : last_operation_->next) = &operation;
  last_operation_ = &operation;
}

void QueuePair::StartEligible() {
  const SimFaults& faults = network_.options().faults;
  // Verbs have durations or delays: each waits for the one before.
  const bool one_by_one =
      !faults.reorder && (faults.tear || faults.delay || faults.write_back || broken_);
  bool write_before = false;
  bool atomic_before = false;
  bool read_before = false;
  for (VerbInFlight* operation = first_operation_; operation != nullptr;
       operation = operation->next) {
    const bool is_read = operation->is_read();
    const bool is_write = operation->is_write();
    if (operation->state == VerbInFlight::State::kWaiting) {
      const bool blocked = (write_before && !is_read) ||                            // O1, O2
                           (atomic_before && !is_write) ||                          // O3, O4
                           (operation->fence && (read_before || atomic_before)) ||  // O5
                           (one_by_one && (write_before || read_before || atomic_before));
      if (!blocked) {
        SetOut(*operation);
      } else if (!faults.reorder) {
        return;
      }
    }
    (is_read ? read_before : is_write ? write_before : atomic_before) = true;
  }
}

Nanoseconds QueuePair::InOrder(Nanoseconds at) const {
  return network_.options().faults.reorder ? at : std::max(at, last_effect_);
}

// A verb that is never split and never holds a word needs one event: its time is known now.
void QueuePair::SetOut(VerbInFlight& operation) {
  const SimCosts& costs = network_.costs();
  const SimFaults& faults = network_.options().faults;
  Nanoseconds at = std::max(operation.ready_at, network_.now());
  if (broken_) {
    at += network_.LateTime();
  } else {
    if (faults.reorder) at += Spread(network_.delay_random);
    at += network_.ExtraDelay() + server_.Slowness();
  }
  if (operation.is_atomic()) {
    operation.state = VerbInFlight::State::kOnItsWay;
    // Other atomics may come before it meanwhile.
    if (at > network_.now() && (broken_ || faults.reorder || faults.delay)) {
      network_.events.Arm(operation, InOrder(at));
    } else {
      operation.ready_at = at;
      QueueAtomic(operation);
    }
    return;
  }
  operation.state = VerbInFlight::State::kOnItsWay;
  at = InOrder(at + (operation.is_read() ? costs.pcie_read_ns : costs.pcie_write_ns));
  last_effect_ = std::max(at, last_effect_);
  network_.events.Arm(operation, at);
}

void QueuePair::QueueAtomic(VerbInFlight& operation) {
  const SimCosts& costs = network_.costs();
  const bool on_chip = operation.space == Space::kLockTable && server_.on_chip_locks();
  Nanoseconds hold = on_chip ? costs.on_chip_atomic_ns : costs.dram_atomic_ns;
  const bool write_back = network_.options().faults.write_back;
  operation.holds_word = write_back;
  if (write_back) hold += Spread(network_.tear_random);
  Nanoseconds& slot_free_at = server_.AtomicSlot(operation);
  const Nanoseconds starts_at =
      InOrder(std::max({operation.ready_at, network_.now(), slot_free_at}));
  operation.ends_at = starts_at + hold;
  // Also behind it if the next one's event was armed earlier.
  slot_free_at = operation.ends_at + (write_back ? 1 : 0);
  last_effect_ = std::max(operation.ends_at, last_effect_);
  operation.state = VerbInFlight::State::kQueued;
  network_.events.Arm(operation, write_back ? starts_at : operation.ends_at);
}

void QueuePair::Run(VerbInFlight& operation) {
  if (BreaksNow() || DiesBefore(operation)) return;
  switch (operation.state) {
    case VerbInFlight::State::kWaiting: return;
    case VerbInFlight::State::kOnItsWay:
      return operation.is_atomic() ? QueueAtomic(operation) : Start(operation);
    case VerbInFlight::State::kQueued:
      ReadWord(operation);
      // As planned with the other atomics of this word: the run may have switched faults meanwhile.
      if (!operation.holds_word) {
        WriteWord(operation);
        return Finish(operation);
      }
      operation.state = VerbInFlight::State::kHoldsWord;
      return network_.events.Arm(operation, operation.ends_at);
    case VerbInFlight::State::kHoldsWord: WriteWord(operation); return Finish(operation);
    case VerbInFlight::State::kActive:
      if (operation.mixes_left != 0) {
        --operation.mixes_left;
        server_.active.Mix(operation, network_.options().reads_per_seam, network_.tear_random);
        return ArmActive(operation);
      }
      if (operation.is_split) {
        ++(operation.is_read() ? network_.counters().torn_reads : network_.counters().torn_writes);
      }
      server_.active.Finish(operation);
      return Finish(operation);
  }
}

void QueuePair::Start(VerbInFlight& operation) {
  if (!network_.options().faults.tear || operation.length <= 1) {
    server_.Apply(operation);
    return Finish(operation);
  }
  operation.state = VerbInFlight::State::kActive;
  if (is_told()) Tell("begins", operation);
  operation.ends_at = network_.now() + Duration(network_.tear_random) + network_.ExtraDelay();
  server_.active.Start(operation, server_.space(operation.space).data() + operation.remote_offset,
                       network_.tear_random);
  if (operation.is_clean) operation.ends_at += network_.LongSight();
  last_effect_ = std::max(operation.ends_at, last_effect_);
  ArmActive(operation);
}

void QueuePair::ArmActive(VerbInFlight& operation) {
  Nanoseconds at = operation.ends_at;
  if (operation.mixes_left != 0) {
    at = network_.now() + UpTo(network_.tear_random, operation.ends_at - network_.now());
  }
  network_.events.Arm(operation, at);
}

void QueuePair::ReadWord(VerbInFlight& operation) {
  const std::byte* const word = server_.space(operation.space).data() + operation.remote_offset;
  std::memcpy(&operation.old_word, word, sizeof operation.old_word);
  if (operation.local.data != nullptr) {
    std::memcpy(operation.local.data, &operation.old_word, sizeof operation.old_word);
  }
  if (is_told()) Tell("reads its word", operation);
}

void QueuePair::WriteWord(VerbInFlight& operation) {
  if (network_.options().faults.tear) {
    server_.active.MixReads(operation.space, operation.remote_offset, network_.tear_random);
  }
  std::byte* const word = server_.space(operation.space).data() + operation.remote_offset;
  uint64_t before;
  std::memcpy(&before, word, sizeof before);
  const VerbTraits& traits = TraitsOf(operation.opcode);
  const uint64_t after =
      traits.new_word(operation.old_word, operation.compare, operation.swap_or_add);
  const bool is_refused = traits.is_conditional && operation.old_word != operation.compare;
  if (is_refused) ++network_.counters().written_back;
  if (before != operation.old_word) ++network_.counters().lost_to_write_back;
  std::memcpy(word, &after, sizeof after);
}

void QueuePair::Finish(VerbInFlight& operation) {
  ++network_.counters().verbs;
  if (broken_) ++network_.counters().late_packets;
  if (operation.previous != nullptr) ++network_.counters().overtaken;
  network_.Trace(operation.remote_offset);
  if (is_told()) Tell(broken_ ? "ends, late" : "ends", operation);
  Transit* const transit = operation.transit;
  if (transit != nullptr) operation.posted->status = VerbStatus::kSuccess;
  Remove(operation);
  if (transit != nullptr && --transit->unfinished == 0) AnswerFinished();
  StartEligible();
}

void QueuePair::Remove(VerbInFlight& operation) {
  (operation.previous == nullptr ? first_operation_ : operation.previous->next) = operation.next;
  (operation.next == nullptr ? last_operation_ : operation.next->previous) = operation.previous;
  network_.events.Disarm(operation);
  operation.transit = nullptr;
  network_.operations.Give(operation);
}

}  // namespace gossamer::sim
