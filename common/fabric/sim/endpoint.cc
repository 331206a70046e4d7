#include "common/fabric/sim/endpoint.h"

#include <fmt/core.h>

#include <type_traits>
#include <utility>

#include "common/fabric/sim/ports.h"
#include "common/fabric/sim/queue_pair.h"
#include "common/mutants.h"

namespace gossamer::sim {

SimEndpoint::SimEndpoint(SimComputePort& port, SimNetwork& network, ClientState& client)
    : port_(port),
      network_(network),
      client_(client),
      id_(network.AddEndpoint(*this)),
      limits_{.path_mtu = network.options().path_mtu,
              .max_batch_verbs = 4096,
              .max_outstanding_verbs = network.options().max_outstanding_verbs,
              .max_inline_bytes = 0} {}

SimEndpoint::~SimEndpoint() {
  // First, so that nothing is reported here any more.
  network_.RemoveEndpoint(*this);
  for (Slot& slot : slots_) {
    if (slot.notice != nullptr) {
      network_.events.Disarm(*slot.notice);
      slot.notice->batches = {};
      slot.notice->calls = {};
      network_.notices.Give(*slot.notice);
    }
    network_.fault_log.End(id_, slot.server_number, network_.Now());
    if (slot.queue_pair == nullptr) continue;
    if (client_.dead) {
      slot.queue_pair->ForgetEndpoint();
      continue;
    }
    // The memory server learns of it at once, unless the path is lost.
    const Nanoseconds down_until = network_.DownUntil(client_.uuid, id_, slot.server_number);
    if (slot.queue_pair->is_broken() || down_until > network_.now()) {
      ++network_.counters().unheard_farewells;
      slot.queue_pair->AbandonUnheard(std::max(down_until, network_.now()) + network_.LateTime());
    } else {
      slot.queue_pair->Abandon();
      slot.queue_pair->server().CloseQueuePair(*slot.queue_pair, false);
    }
  }
}

void SimEndpoint::Post(Batch& batch) {
  if (QueuePair* const queue_pair = Working(batch.server())) return queue_pair->Post(batch);
  const size_t index = ToInteger(batch.server());
  for (Verb& verb : batch.verbs()) {
    const bool unknown = index < slots_.size() && std::exchange(slots_[index].owes_unknown, false);
    verb.status = unknown ? VerbStatus::kUnknown : VerbStatus::kFlushed;
  }
  PostInVain(batch, batch.server());
}

void SimEndpoint::Post(ControlCall& call) {
  if (QueuePair* const queue_pair = Working(call.server)) return queue_pair->Post(call);
  call.status = VerbStatus::kFlushed;
  PostInVain(call, call.server);
}

template <typename Posted>
void SimEndpoint::PostInVain(Posted& posted, ServerId server) {
  Notice* const notice = SlotOf(server).notice;
  if (notice == nullptr) return Complete(posted);
  // Behind earlier posts, which have not come back yet.
  if constexpr (std::is_same_v<Posted, Batch>) {
    notice->batches.Push(posted);
  } else {
    notice->calls.Push(posted);
  }
}

void SimEndpoint::Complete(Batch& batch) {
  ended_batches_.Push(batch);
  network_.MakeRunnable(*this);
}

void SimEndpoint::Complete(ControlCall& call) {
  ended_calls_.Push(call);
  network_.MakeRunnable(*this);
}

template <typename Posted>
size_t SimEndpoint::Report(IntrusiveQueue<Posted>& completing) {
  const SimCosts& costs = network_.costs();
  if (!costs.posts_take_cpu) return CompleteAll(completing);
  size_t count = 0;
  while (!completing.empty()) {
    IntrusiveQueue<Posted> one;
    one.Push(completing.Pop());
    posts_at_ = posts_at() + costs.completion_cpu_ns;
    count += CompleteAll(one);
  }
  return count;
}

size_t SimEndpoint::Poll() {
  if (!HasWork()) network_.RunOne();
  if (!HasWork()) return 0;
  // A busy thread or a stopped process does not poll, however long that takes.
  if (free_at() > network_.now()) {
    // Wake at that time, not at the next event.
    network_.WakeAt(*this, free_at());
    while (free_at() > network_.now() && network_.RunOne()) {
    }
  }
  awake_ = false;
  busy_until_ = network_.now();
  // A wake without completions costs time, too.
  if (!HasEnded() && network_.costs().posts_take_cpu) {
    posts_at_ = posts_at() + network_.costs().completion_cpu_ns;
  }
  for (Slot& slot : slots_) {
    if (openings_ != 0 && slot.request != nullptr) TryOpen(slot);
  }
  completing_calls_.Append(ended_calls_.TakeAll());
  completing_.Append(ended_batches_.TakeAll());
  // Calls before batches, as in shm.
  const size_t calls = Report(completing_calls_);
  const size_t completed = calls + Report(completing_);
  // Opening a queue pair takes no time.
  const size_t requests = ReportRequests();
  if (completed != 0 || requests == 0) {
    busy_until_ += static_cast<Nanoseconds>(std::max<size_t>(completed, 1)) *
                   network_.costs().completion_cpu_ns;
  }
  // A blocking caller has polled this endpoint out of turn.
  if (requests != 0 && !HasWork()) network_.TakeOut(*this);
  return completed + requests;
}

// Last: what the coroutines above have posted is flushed (E5).
size_t SimEndpoint::ReportRequests() {
  for (Slot& slot : slots_) {
    if (!std::exchange(slot.is_opened, false)) continue;
    slot.working = true;
    slot.queue_pair_id = slot.queue_pair->id();
  }
  completing_requests_.Append(ended_requests_.TakeAll());
  return CompleteAll(completing_requests_);
}

void SimEndpoint::WakeAt(Clock::time_point due) {
  const Nanoseconds at = due.time_since_epoch().count();
  if (at <= network_.now()) {
    awake_ = true;
    network_.MakeRunnable(*this);
  } else {
    network_.WakeAt(*this, at);
  }
}

Status SimEndpoint::Open(Slot& slot, ServerId server) {
  BOOST_OUTCOME_TRY(peer, port_.PeerOf(server));
  Server* const found = network_.FindServer(peer.number);
  const bool is_gone = found == nullptr || !found->serving();
  const bool is_another = !is_gone && found->incarnation() != peer.incarnation;
  if (is_gone || is_another) {
    Meets(SimFault::Kind::kServer, peer.number, network_.now());
  }
  if (client_.dead || is_gone) {
    return MakeError(Code::kNodeUnreachable,
                     fmt::format("memory server at sim:{}{}", peer.number,
                                 client_.dead ? ": this client is dead" : " is gone"));
  }
  if (is_another && !IsBroken(Mutant::kU6)) {
    return MakeError(Code::kNodeUnreachable, fmt::format("sim:{}: {}", peer.number, kStartedAnew));
  }
  Status fits =
      CheckPathMtu(port_.options(), found->path_mtu(), fmt::format("sim:{}", peer.number));
  if (!fits && !IsBroken(Mutant::kW2Mtu)) return fits;
  limits_.path_mtu = std::min(limits_.path_mtu, found->path_mtu());
  // Of a server that has come back at another address.
  if (slot.server_number != kNone && slot.server_number != peer.number) {
    network_.fault_log.End(id_, slot.server_number, network_.Now());
  }
  slot.server_number = peer.number;
  slot.queue_pair = &found->OpenQueuePair(*this, client_);
  slot.is_opened = true;
  network_.fault_log.End(id_, peer.number, network_.Now());
  if (std::exchange(slot.was_down, false)) slot.queue_pair->SetShaky();
  return Ok();
}

void SimEndpoint::Post(QueuePairRequest& request) {
  const Result<SimComputePort::Peer> peer = port_.PeerOf(request.server);
  if (!peer) return End(request, peer.error());
  const size_t index = ToInteger(request.server);
  if (index >= slots_.size()) slots_.resize(index + 1);
  Slot& slot = slots_[index];
  if (slot.request != nullptr) {
    return End(request, MakeError(Code::kInvalidArgument, "a queue pair is asked for already"));
  }
  // To the session's other operations it is as if it had broken.
  if (slot.working || slot.is_opened) slot.queue_pair->Break(0, SimFault::Kind::kBreak);
  LearnOfBreak(request.server);
  slot.owes_unknown = false;
  slot.request = &request;
  slot.give_up = network_.now() + network_.options().connection_timeout.count();
  ++openings_;
  TryOpen(slot);
}

void SimEndpoint::End(QueuePairRequest& request, Status status) {
  request.status = std::move(status);
  ended_requests_.Push(request);
  network_.MakeRunnable(*this);
}

void SimEndpoint::TryOpen(Slot& slot) {
  const ServerId server = slot.request->server;
  const uint64_t number = port_.PeerOf(server).value().number;
  const Nanoseconds down_until = client_.dead ? 0 : network_.DownUntil(client_.uuid, id_, number);
  if (down_until > network_.now() && slot.give_up > network_.now()) {
    if (slot.look_at > network_.now()) return;
    slot.look_at = std::min(down_until, slot.give_up);
    return network_.WakeAt(*this, slot.look_at);
  }
  QueuePairRequest& request = *std::exchange(slot.request, nullptr);
  --openings_;
  if (down_until > network_.now()) {
    ++network_.counters().failed_connects;
    Meets(SimFault::Kind::kLinkDown, number, network_.now());
    return End(request, MakeError(Code::kNodeUnreachable,
                                  fmt::format("memory server at sim:{} does not answer", number)));
  }
  // The broken queue pair stays at its memory server until that hears from the client, as now.
  if (slot.queue_pair != nullptr && !client_.dead) {
    QueuePair& old = *std::exchange(slot.queue_pair, nullptr);
    if (IsBroken(Mutant::kU1)) {
      old.ForgetEndpoint();  // Does not wait for its destruction.
    } else {
      old.server().CloseQueuePair(old, true);
    }
  }
  Server* const there = client_.dead ? nullptr : network_.FindServer(number);
  if (there != nullptr && request.also_destroys != 0) {
    there->CloseQueuePair(client_, request.also_destroys);
  }
  End(request, Open(slot, server));
}

void SimEndpoint::QueuePairBroke(const QueuePair& queue_pair, Notice& lost, bool owes_unknown,
                                 Nanoseconds until_told) {
  for (size_t index = 0; index < slots_.size(); ++index) {
    Slot& slot = slots_[index];
    if (slot.queue_pair != &queue_pair) continue;
    const auto server = static_cast<ServerId>(index);
    slot.working = slot.is_opened = false;
    slot.owes_unknown = owes_unknown;
    slot.notice = &lost;
    lost.endpoint_id = id_;
    lost.server = server;
    if (until_told == 0) {
      LearnOfBreak(server);
    } else {
      network_.events.Arm(lost, network_.now() + until_told);
    }
  }
}

void SimEndpoint::Meets(SimFault::Kind kind, uint64_t server_number, Nanoseconds until) {
  network_.fault_log.Add({kind, client_.uuid, id_, server_number, owner != nullptr, network_.Now(),
                          SimNetwork::TimeAt(until)});
}

void SimEndpoint::LearnOfBreak(ServerId server) {
  Notice* const notice = std::exchange(slots_[ToInteger(server)].notice, nullptr);
  if (notice == nullptr) return;
  network_.events.Disarm(*notice);
  while (!notice->batches.empty()) Complete(notice->batches.Pop());
  while (!notice->calls.empty()) Complete(notice->calls.Pop());
  network_.notices.Give(*notice);
}

void SimEndpoint::BreakAll() {
  resuming = false;  // now, not when its pause would have ended
  for (size_t index = 0; index < slots_.size(); ++index) {
    Slot& slot = slots_[index];
    if (slot.working || slot.is_opened) slot.queue_pair->Break(0);
    LearnOfBreak(static_cast<ServerId>(index));
    if (slot.request != nullptr) TryOpen(slot);
  }
  if (HasWork()) network_.MakeRunnable(*this);
}

void SimEndpoint::LoseLinks(const Outage& outage) {
  for (Slot& slot : slots_) {
    if (slot.server_number == kNone || !outage.IsTo(slot.server_number)) continue;
    slot.was_down = true;
    Meets(SimFault::Kind::kLinkDown, slot.server_number);
    if (slot.working || slot.is_opened) slot.queue_pair->Break(network_.NoticeTime());
  }
}

void SimEndpoint::QueuePairGone(const QueuePair& queue_pair) {
  for (Slot& slot : slots_) {
    if (slot.queue_pair == &queue_pair) slot.queue_pair = nullptr;
  }
}

}  // namespace gossamer::sim
