// The end of a queue pair: what its client is told, and what still lands.
#include <algorithm>

#include "common/fabric/sim/chance.h"
#include "common/fabric/sim/endpoint.h"
#include "common/fabric/sim/queue_pair.h"
#include "common/fabric/sim/sim.h"

namespace gossamer::sim {
namespace {

// Chooses which of the abandoned verbs take effect: a set closed under the ordered pairs, decided
// verb by verb in posted order. READs have no effect and are not passed in.
class ClosedSet {
 public:
  explicit ClosedSet(Random& random, bool is_empty = false)
      : random_(random), mode_(is_empty ? 0 : random.Below(4)) {}

  // Whether the next verb takes effect. `must`: part of it already has; `cannot`: it is too late.
  bool Keeps(const VerbInFlight& operation, bool must, bool cannot = false) {
    const bool is_write = operation.is_write();
    const bool may = is_write ? !dropped_write_ && !(operation.fence && dropped_atomic_)  // O1, O5
                              : !dropped_write_ && !dropped_atomic_;                      // O2, O4
    if (may && !cannot && (must || Likes())) return true;
    (is_write ? dropped_write_ : dropped_atomic_) = true;
    return false;
  }

 private:
  bool Likes() {
    if (mode_ < 2) return mode_ == 1;  // all or nothing
    return random_.Below(4) != 0;
  }

  Random& random_;
  const uint64_t mode_;
  bool dropped_write_ = false;
  bool dropped_atomic_ = false;
};

// Whether a part of it has taken effect, and all of it must.
bool MustLand(const VerbInFlight& operation, uint32_t path_mtu) {
  return operation.state == VerbInFlight::State::kHoldsWord ||
         (operation.state == VerbInFlight::State::kActive && operation.length <= path_mtu);  // D1
}

template <typename Visit>
void ForEach(const IntrusiveQueue<Transit>& queue, Visit visit) {
  if (queue.empty()) return;
  for (Transit* transit = queue.first(); transit != nullptr; transit = transit->next) {
    for (Verb& verb : transit->batch->verbs()) visit(verb);
  }
}

}  // namespace

bool QueuePair::BreaksNow() {
  const SimOptions& options = network_.options();
  if (broken_) return false;
  if (!options.faults.break_queue_pairs || !OneIn(network_.loss_random, options.verbs_per_break)) {
    return LosesLinkNow();
  }
  ++network_.counters().broken_queue_pairs;
  Break(network_.NoticeTime(), SimFault::Kind::kBreak);
  return true;
}

bool QueuePair::LosesLinkNow() {
  constexpr uint32_t kEventsPerLossWhileShaky = 12;
  const bool is_shaky = shaky_for_ != 0;
  if (is_shaky) --shaky_for_;
  if (!network_.DrawsPartition(is_shaky ? kEventsPerLossWhileShaky
                                        : network_.options().verbs_per_partition)) {
    return false;
  }
  network_.Partition(*endpoint_, server_.number());
  return true;
}

// The WRITE before it has ended (O1), or this one would not have set out.
bool QueuePair::DiesBefore(const VerbInFlight& operation) {
  const bool may = !broken_ && operation.is_write() &&
                   operation.state == VerbInFlight::State::kOnItsWay &&
                   operation.transit != nullptr;
  if (!may) return false;
  const Verb& first = operation.transit->batch->verbs().front();
  if (&first == operation.posted || !first.is_write() || !network_.DrawsDeathInBatch()) {
    return false;
  }
  Break(0, Late::kNothing);
  network_.KillInBatch(client_);
  return true;
}

void QueuePair::Break(Nanoseconds notice, SimFault::Kind cause) {
  if (endpoint_ != nullptr) endpoint_->Meets(cause, server_.number());
  Break(notice);
}

void QueuePair::Break(Nanoseconds notice, Late late) {
  if (broken_) return;
  broken_ = true;
  if (is_told()) Tell("breaks");
  const bool told = SetStatusesOfBroken();
  ChooseSurvivors(late);
  Notice& lost = network_.notices.Take();
  EndTransits(lost.batches);
  EndCalls(lost.calls, true);
  endpoint_->QueuePairBroke(*this, lost, !told, notice);
  StartEligible();
}

void QueuePair::BreakRefused() {
  broken_ = true;
  Notice& lost = network_.notices.Take();
  EndTransits(lost.batches);
  EndCalls(lost.calls, false);
  endpoint_->QueuePairBroke(*this, lost, false, 0);
}

void QueuePair::Abandon() {
  if (broken_) return;
  broken_ = true;
  for (IntrusiveQueue<Transit>* queue : {&in_flight_, &unsent_}) {
    while (!queue->empty()) {
      network_.events.Disarm(*queue->first());
      network_.transits.Give(queue->Pop());
    }
  }
  next_to_answer_ = nullptr;
}

void QueuePair::AbandonUnheard(Nanoseconds settles_at) {
  if (!broken_) {
    // Copies what is in flight out of memory that is about to be freed.
    ChooseSurvivors(Late::kSome);
    Abandon();
    ForgetCalls();
  }
  endpoint_ = nullptr;
  if (is_told()) Tell("has lost its endpoint, and its memory server does not know");
  farewell_ = &network_.farewells.Take();
  farewell_->queue_pair = this;
  network_.events.Arm(*farewell_, settles_at);
  StartEligible();
}

// Sent calls may still arrive; their answers are not needed.
void QueuePair::ForgetCalls() {
  IntrusiveQueue<CallInFlight> late;
  while (!calls_.empty()) {
    CallInFlight& call = calls_.Pop();
    call.call = nullptr;
    if (call.kind == EventKind::kCallArrives) {
      late.Push(call);
    } else {
      network_.events.Disarm(call);
      network_.calls.Give(call);
    }
  }
  calls_ = late;
}

QueuePair::~QueuePair() {
  if (farewell_ == nullptr) return;
  network_.events.Disarm(*farewell_);
  network_.farewells.Give(*farewell_);
}

bool QueuePair::SetStatusesOfBroken() {
  Random& random = network_.loss_random;
  uint64_t succeeded = 0;  // those at the front
  bool only_succeeded = true;
  const auto count = [&](const Verb& verb) {
    only_succeeded = only_succeeded && verb.status == VerbStatus::kSuccess;
    if (only_succeeded) ++succeeded;
  };
  ForEach(in_flight_, count);
  // Answers of the last of these may be lost, too.
  const uint64_t heard_of = random.Below(2) == 0 ? succeeded : random.Below(succeeded + 1);
  uint64_t index = 0;
  bool told = false;
  const auto end = [&](Verb& verb) {
    if (index++ < heard_of) return;
    told = true;
    verb.status = VerbStatus::kUnknown;
    // A buffer that was being filled has undefined bytes.
    if (!verb.is_write() && verb.length != 0) {
      verb.local.data[random.Below(verb.length)] ^= std::byte{0xff};
    }
  };
  ForEach(in_flight_, end);
  ForEach(unsent_, end);
  return told;
}

void QueuePair::EndTransits(IntrusiveQueue<Batch>& ended) {
  for (IntrusiveQueue<Transit>* queue : {&in_flight_, &unsent_}) {
    while (!queue->empty()) {
      Transit& transit = queue->Pop();
      network_.events.Disarm(transit);
      ended.Push(*transit.batch);
      network_.transits.Give(transit);
    }
  }
  next_to_answer_ = nullptr;
  verbs_in_flight_ = 0;
}

void QueuePair::EndCalls(IntrusiveQueue<ControlCall>& ended, bool may_arrive) {
  IntrusiveQueue<CallInFlight> late;
  while (!calls_.empty()) {
    CallInFlight& call = calls_.Pop();
    network_.events.Disarm(call);
    if (call.call != nullptr) {
      call.call->status = VerbStatus::kUnknown;
      ended.Push(*call.call);
      call.call = nullptr;
    }
    may_arrive =
        may_arrive && call.kind == EventKind::kCallArrives && network_.loss_random.Below(2) == 0;
    if (may_arrive) {
      late.Push(call);
      last_call_arrival_ = std::max(last_call_arrival_, network_.now() + network_.LateTime());
      network_.events.Arm(call, last_call_arrival_);
    } else {
      network_.calls.Give(call);
    }
  }
  calls_ = late;
}

void QueuePair::ChooseSurvivors(Late late) {
  ClosedSet survivors(network_.loss_random, late == Late::kNothing);
  VerbInFlight* next = nullptr;
  for (VerbInFlight* each = first_operation_; each != nullptr; each = next) {
    next = each->next;
    VerbInFlight& operation = *each;
    operation.transit = nullptr;
    operation.posted = nullptr;
    const bool is_active = operation.state == VerbInFlight::State::kActive;
    const bool holds_word = operation.state == VerbInFlight::State::kHoldsWord;
    if (operation.is_read() || !survivors.Keeps(operation, MustLand(operation, path_mtu_))) {
      Drop(operation);
      continue;
    }
    if (operation.is_write()) {
      operation.payload.assign(operation.local.data, operation.local.data + operation.length);
      operation.local.data = operation.payload.data();
    } else {
      operation.local.data = nullptr;
    }
    if (is_active || holds_word) {
      if (operation.armed == 0) {
        network_.events.Arm(operation, std::max(network_.now(), operation.ends_at));
      }
    } else {
      operation.state = VerbInFlight::State::kWaiting;
      network_.events.Disarm(operation);
    }
  }
}

void QueuePair::Drop(VerbInFlight& operation) {
  if (!operation.is_read()) ++network_.counters().dropped_packets;
  if (is_told()) Tell("is dropped", operation);
  if (operation.state == VerbInFlight::State::kActive) {
    server_.active.Drop(operation);
  } else if (operation.is_write() && operation.length > path_mtu_) {
    // Some of its packets may have landed.
    operation.remote = server_.space(operation.space).data() + operation.remote_offset;
    Advance(operation, network_.loss_random);
  }
  Remove(operation);
}

void QueuePair::LandNow(VerbInFlight& operation) {
  ++network_.counters().verbs;
  ++network_.counters().late_packets;
  switch (operation.state) {
    case VerbInFlight::State::kActive: server_.active.Finish(operation); break;
    case VerbInFlight::State::kHoldsWord: WriteWord(operation); break;
    default:
      if (operation.is_atomic()) {
        operation.local.data = nullptr;
        ReadWord(operation);
        WriteWord(operation);
      } else {
        server_.Apply(operation);
      }
  }
  if (is_told()) Tell("lands as its queue pair is destroyed", operation);
  Remove(operation);
}

void QueuePair::SettleLate() {
  const std::span<std::byte> region = server_.space(Space::kRegion);
  for (VerbInFlight* each = first_operation_; each != nullptr; each = each->next) {
    if (!each->is_write() || each->space != Space::kRegion) continue;
    const auto at = SimNetwork::TimeAt(network_.now() + network_.LateTime());
    network_.CallAt(
        at, [to = region.subspan(each->remote_offset, each->length), payload = each->payload] {
          std::ranges::copy(std::span(payload).first(to.size()), to.begin());
        });
  }
  Settle();
}

void QueuePair::Settle() {
  if (is_told()) Tell("is destroyed");
  ClosedSet landing(network_.loss_random);
  while (first_operation_ != nullptr) {
    VerbInFlight& operation = *first_operation_;
    // Too late: another atomic has already read the word.
    const bool too_late = operation.is_atomic() &&
                          operation.state != VerbInFlight::State::kHoldsWord &&
                          server_.AtomicSlot(operation) > network_.now();
    if (operation.is_read() ||
        !landing.Keeps(operation, MustLand(operation, path_mtu_), too_late)) {
      Drop(operation);
    } else {
      LandNow(operation);
    }
  }
  while (!calls_.empty()) {
    network_.events.Disarm(*calls_.first());
    network_.calls.Give(calls_.Pop());
  }
}

}  // namespace gossamer::sim
