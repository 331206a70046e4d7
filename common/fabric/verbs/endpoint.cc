#include "common/fabric/verbs/endpoint.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "common/fabric/verbs/wire.h"

namespace gossamer::verbs {
namespace {

// A batch that moves more than this signals in between, to show progress.
constexpr uint64_t kBytesPerSignal = uint64_t{256} << 10;

// Returns the device's opcode and fills in the operands of an atomic. A new verb needs its case
// here.
ibv_wr_opcode FillVerb(const Verb& verb, ibv_send_wr& request) {
  switch (verb.opcode) {
    case Opcode::kRead: return IBV_WR_RDMA_READ;
    case Opcode::kWrite: return IBV_WR_RDMA_WRITE;
    case Opcode::kCompareSwap:
      request.wr.atomic.compare_add = verb.compare;
      request.wr.atomic.swap = verb.swap_or_add;
      return IBV_WR_ATOMIC_CMP_AND_SWP;
    case Opcode::kFetchAdd:
      request.wr.atomic.compare_add = verb.swap_or_add;
      request.wr.atomic.swap = 0;
      return IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
  return IBV_WR_RDMA_READ;
}

}  // namespace

Result<std::unique_ptr<VerbsEndpoint>> VerbsEndpoint::Open(VerbsComputePort& port,
                                                           std::shared_ptr<Device> device) {
  std::unique_ptr<VerbsEndpoint> endpoint(new VerbsEndpoint(port, std::move(device)));
  BOOST_OUTCOME_TRYV(endpoint->MakeRoom(1));
  return endpoint;
}

VerbsEndpoint::VerbsEndpoint(VerbsComputePort& port, std::shared_ptr<Device> device)
    : port_(port),
      device_(std::move(device)),
      options_(port.options()),
      slabs_(device_),
      buffers_(slabs_),
      domain_(*device_) {
  const QueuePairSize& size = device_->queue_pair_size();
  limits_ = {device_->active_mtu(), size.verbs, size.verbs, size.inline_bytes};
  requests_.resize(size.verbs);
  pieces_.resize(size.verbs);
  for (uint32_t i = 0; i < size.verbs; ++i) {
    requests_[i] = {};
    requests_[i].sg_list = &pieces_[i];
    requests_[i].next = i + 1 < size.verbs ? &requests_[i + 1] : nullptr;
  }
}

VerbsEndpoint::~VerbsEndpoint() = default;

// ---- Posting

void VerbsEndpoint::Post(Batch& batch) {
  for (Verb& verb : batch.verbs()) verb.status = VerbStatus::kPending;
  QueuePair* queue_pair = Find(batch.server());
  if (queue_pair == nullptr || queue_pair->state != QueuePairState::kConnected) {
    Finish(batch, VerbStatus::kFlushed);
    return;
  }
  if (batch.empty()) {
    Finish(batch, VerbStatus::kSuccess);
    return;
  }
  const auto verbs = static_cast<uint32_t>(batch.verbs().size());
  if (verbs > limits_.max_batch_verbs) {
    std::fprintf(stderr, "a batch of %u verbs exceeds Limits::max_batch_verbs (%u)\n", verbs,
                 limits_.max_batch_verbs);
    std::abort();
  }
  if (!queue_pair->waiting.empty() || queue_pair->free_verbs < queue_pair->PieceOf(verbs)) {
    queue_pair->waiting.Push(batch);
    return;
  }
  Submit(*queue_pair, batch);
}

void VerbsEndpoint::Submit(QueuePair& queue_pair, Batch& batch, uint32_t first_verb) {
  const std::span<Verb> left = batch.verbs().subspan(first_verb);
  const std::span<Verb> verbs = left.first(queue_pair.PieceOf(left.size()));
  const size_t last = verbs.size() - 1;
  const uint64_t id_base = queue_pair.work_id_base();
  uint64_t unsignalled_bytes = 0;
  for (size_t i = 0; i <= last; ++i) {
    const Verb& verb = verbs[i];
    const RemoteMemory& memory = queue_pair.memory[static_cast<size_t>(verb.space)];
    ibv_send_wr& request = requests_[i];
    pieces_[i] = {AddressNumber(verb.local.data), verb.length, verb.local.key};
    request.wr_id = id_base | queue_pair.next_sequence++;
    // Length 0 goes as a WRITE: some devices look up the key for a READ of length 0.
    request.opcode = verb.length == 0 ? IBV_WR_RDMA_WRITE : FillVerb(verb, request);
    request.num_sge = verb.length == 0 ? 0 : 1;
    unsigned flags = verb.fence ? IBV_SEND_FENCE : 0;
    unsignalled_bytes += verb.length;
    if (i == last || unsignalled_bytes > kBytesPerSignal) {
      flags |= IBV_SEND_SIGNALED;
      unsignalled_bytes = 0;
    }
    if (verb.is_atomic()) {
      // Some drivers refuse a misaligned atomic and the rest of the batch on posting. Out of
      // bounds, it fails in order on every device.
      const bool aligned = verb.remote_offset % 8 == 0;
      request.wr.atomic.remote_addr =
          memory.address + (aligned ? verb.remote_offset : memory.bytes);
      request.wr.atomic.rkey = memory.key;
    } else {
      request.wr.rdma.remote_addr = memory.address + verb.remote_offset;
      request.wr.rdma.rkey = memory.key;
      if (verb.is_write() && verb.length != 0 && verb.length <= limits_.max_inline_bytes) {
        flags |= IBV_SEND_INLINE;
      }
    }
    request.send_flags = flags;
  }
  const auto count = static_cast<uint32_t>(verbs.size());
  queue_pair.free_verbs -= count;
  queue_pair.in_flight.PushBack({Posted::Kind::kBatch, count, &batch, first_verb});
  ++doorbells_;

  ibv_send_wr* const rest = requests_[last].next;
  requests_[last].next = nullptr;
  ibv_send_wr* refused = nullptr;
  const int error = ibv_post_send(queue_pair.connection.id->qp, requests_.data(), &refused);
  requests_[last].next = rest;
  // By our accounts the queue is never full, so an error means that the queue pair is unusable.
  // What was posted is flushed; `Collapse` ends the rest.
  if (error != 0) Break(queue_pair);
}

void VerbsEndpoint::Post(ControlCall& call) {
  call.status = VerbStatus::kPending;
  call.reply_bytes = 0;
  QueuePair* queue_pair = Find(call.server);
  if (queue_pair == nullptr || queue_pair->state != QueuePairState::kConnected ||
      call.request_bytes > kMaxControlBytes) {
    Finish(call, VerbStatus::kFlushed);
    return;
  }
  queue_pair->calls_waiting.Push(call);
  PostWaiting(*queue_pair);
}

void VerbsEndpoint::PostWaiting(QueuePair& queue_pair) {
  while (!queue_pair.waiting.empty() &&
         queue_pair.PieceOf(queue_pair.waiting.first()->verbs().size()) <= queue_pair.free_verbs) {
    Submit(queue_pair, queue_pair.waiting.Pop());
  }
  while (!queue_pair.calls_waiting.empty() && queue_pair.free_sends > 0 &&
         queue_pair.free_replies > 0) {
    if (!queue_pair.PostCall(queue_pair.calls_waiting.Pop())) Break(queue_pair);
  }
}

}  // namespace gossamer::verbs
