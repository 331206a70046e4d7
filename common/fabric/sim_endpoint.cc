#include "common/fabric/sim_endpoint.h"

#include "common/fabric/sim_ports.h"
#include "common/fabric/sim_queue_pair.h"

namespace gossamer::sim {

SimEndpoint::SimEndpoint(SimComputePort& port, Network& network, Client& client)
    : port_(port),
      network_(network),
      client_(client),
      id_(network.AddEndpoint(*this)),
      limits_{.path_mtu = network.options().path_mtu,
              .max_batch_verbs = 4096,
              .max_outstanding_verbs = network.options().max_outstanding_verbs,
              .max_inline_bytes = 0} {}

SimEndpoint::~SimEndpoint() {
  // First: nothing is reported here any more.
  network_.RemoveEndpoint(*this);
  for (Slot& slot : slots_) {
    if (slot.queue_pair == nullptr) continue;
    QueuePair& queue_pair = *slot.queue_pair;
    slot.working = false;
    if (client_.dead) {
      queue_pair.ForgetEndpoint();
    } else {
      queue_pair.server().CloseQueuePair(queue_pair, false);
    }
  }
}

void SimEndpoint::Post(Batch& batch) {
  if (QueuePair* const queue_pair = Working(batch.server())) {
    queue_pair->Post(batch);
    return;
  }
  for (Verb& verb : batch.verbs()) verb.status = VerbStatus::kFlushed;
  Complete(batch);
}

void SimEndpoint::Post(ControlCall& call) {
  if (QueuePair* const queue_pair = Working(call.server)) {
    queue_pair->Post(call);
    return;
  }
  call.status = VerbStatus::kFlushed;
  Complete(call);
}

void SimEndpoint::Complete(Batch& batch) {
  ended_batches_.Push(batch);
  network_.MakeRunnable(*this);
}

void SimEndpoint::Complete(ControlCall& call) {
  ended_calls_.Push(call);
  network_.MakeRunnable(*this);
}

size_t SimEndpoint::Poll() {
  if (!HasWork()) network_.RunOne();
  // A paused process does not run, however much time has to pass.
  while (client_.paused_until > network_.now() && network_.RunOne()) {
  }
  awake_ = false;
  // Calls before batches, as in shm; both queues are out of reach of what is resumed.
  const size_t calls = CompleteAll(ended_calls_.TakeAll());
  return calls + CompleteAll(ended_batches_.TakeAll());
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
  BOOST_OUTCOME_TRY(number, port_.NumberOf(server));
  Server* const found = network_.FindServer(number);
  if (client_.dead || found == nullptr || !found->serving()) {
    return MakeError(Code::kNodeUnreachable,
                     "memory server at sim:" + std::to_string(number) +
                         (client_.dead ? ": this client is dead" : " is gone"));
  }
  slot.server_number = number;
  slot.queue_pair = &found->OpenQueuePair(*this, client_);
  slot.working = true;
  return Ok();
}

Status SimEndpoint::Attach(ServerId server) {
  if (IsAttached(server)) return Ok();
  const size_t index = ToInteger(server);
  if (index >= slots_.size()) slots_.resize(index + 1);
  return Open(slots_[index], server);
}

Status SimEndpoint::Reconnect(ServerId server) {
  if (!IsAttached(server)) return Attach(server);
  Slot& slot = slots_[ToInteger(server)];
  if (slot.queue_pair != nullptr && !client_.dead) {
    Server& old_server = slot.queue_pair->server();
    old_server.CloseQueuePair(*slot.queue_pair, true);
    slot.queue_pair = nullptr;
  }
  return Open(slot, server);
}

void SimEndpoint::BreakAll() {
  for (Slot& slot : slots_) {
    if (slot.working) slot.queue_pair->Break();
  }
}

void SimEndpoint::QueuePairBroke(const QueuePair& queue_pair) {
  for (Slot& slot : slots_) {
    if (slot.queue_pair == &queue_pair) slot.working = false;
  }
}

void SimEndpoint::QueuePairGone(const QueuePair& queue_pair) {
  for (Slot& slot : slots_) {
    if (slot.queue_pair == &queue_pair) slot.queue_pair = nullptr;
  }
}

}  // namespace gossamer::sim
