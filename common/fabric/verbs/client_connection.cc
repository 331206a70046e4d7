#include "common/fabric/verbs/client_connection.h"

#include <algorithm>
#include <cstring>

namespace gossamer::verbs {
namespace {

// Work request ids: a request's slot, or one of these.
constexpr uint64_t kReplySent = kControlDepth;
constexpr uint64_t kLifeSign = kControlDepth + 1;

// Each poll brings at most as many requests as a client may have in flight.
constexpr int kPollsPerTurn = 2;

}  // namespace

Result<std::unique_ptr<ClientConnection>> ClientConnection::Open(const Device& device,
                                                                 ConnectionId& id,
                                                                 ibv_comp_channel* channel,
                                                                 uint64_t client_uuid,
                                                                 uint64_t connection_id) {
  std::unique_ptr<ClientConnection> connection(
      new ClientConnection(std::move(id), client_uuid, connection_id));
  if (const Status prepared = connection->Prepare(device, channel); !prepared) {
    if (connection->id_->qp != nullptr) rdma_destroy_qp(connection->id_.get());
    id = std::move(connection->id_);
    return prepared.error();
  }
  return connection;
}

ClientConnection::~ClientConnection() {
  if (id_ != nullptr) rdma_disconnect(id_.get());
}

Status ClientConnection::Prepare(const Device& device, ibv_comp_channel* channel) {
  BOOST_OUTCOME_TRY(messages_region,
                    device.Register(messages_.data(), sizeof messages_, IBV_ACCESS_LOCAL_WRITE));
  messages_region_ = std::move(messages_region);
  queue_.reset(ibv_create_cq(device.verbs(), 2 * kControlDepth + 1, this, channel, 0));
  if (queue_ == nullptr)
    return LockingError(Code::kNoResources, "making a completion queue", errno);
  ibv_qp_init_attr wanted{};
  wanted.qp_type = IBV_QPT_RC;
  wanted.send_cq = wanted.recv_cq = queue_.get();
  wanted.cap = {kControlDepth + 1, kControlDepth, 1, 1, 0};
  if (rdma_create_qp(id_.get(), device.protection_domain(), &wanted) != 0) {
    return LockingError(Code::kNoResources, "making a queue pair", errno);
  }
  for (uint32_t slot = 0; slot < kControlDepth; ++slot) {
    if (!PostReceive(slot)) return MakeError(Code::kNoResources, "posting a receive");
  }
  Arm();
  return Ok();
}

void ClientConnection::Arm() { ibv_req_notify_cq(queue_.get(), 0); }

bool ClientConnection::PostReceive(uint32_t slot) {
  ibv_sge piece{reinterpret_cast<uintptr_t>(messages_[slot].bytes), kControlSlotBytes,
                messages_region_->lkey};
  ibv_recv_wr request{};
  request.wr_id = slot;
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* refused = nullptr;
  return ibv_post_recv(id_->qp, &request, &refused) == 0;
}

bool ClientConnection::Serve(ControlHandler& handler) {
  std::array<ibv_wc, 2 * kControlDepth> completions;
  for (int polls = 0; polls < kPollsPerTurn; ++polls) {
    const int count = ibv_poll_cq(queue_.get(), completions.size(), completions.data());
    if (count <= 0) return false;
    for (int i = 0; i < count; ++i) OnCompletion(completions[static_cast<size_t>(i)]);
    while (!requests_.empty() && free_replies_ > 0) {
      const Request request = requests_.front();
      requests_.pop_front();
      if (!Answer(handler, request.slot, request.bytes)) return false;
    }
  }
  return true;
}

// A broken queue pair needs no answer: the client finds out by itself, and replaces it.
void ClientConnection::OnCompletion(const ibv_wc& completion) {
  if (completion.wr_id == kLifeSign) unanswered_ = 0;
  if (completion.status != IBV_WC_SUCCESS) {
    times_broken_ = std::max(times_broken_, 1U);
    return;
  }
  if (completion.wr_id == kLifeSign) return;
  if (completion.wr_id == kReplySent) {
    ++free_replies_;
  } else {
    requests_.push_back({static_cast<uint32_t>(completion.wr_id), completion.byte_len});
  }
}

void ClientConnection::AskForLife() {
  if (!established_) return;
  if (times_broken_ > 0) {
    lost_ |= ++times_broken_ > kLifePeriods;
    return;
  }
  if (unanswered_ > 0) {
    lost_ |= ++unanswered_ > kLifePeriods;
    return;
  }
  ibv_send_wr request{};
  request.wr_id = kLifeSign;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  if (ibv_post_send(id_->qp, &request, &refused) == 0) unanswered_ = 1;
}

// A message that is no request breaks the connection.
bool ClientConnection::Answer(ControlHandler& handler, uint32_t slot, uint32_t bytes) {
  const std::byte* request = messages_[slot].bytes;
  ControlHeader header;
  std::memcpy(&header, request, sizeof header);
  if (bytes < sizeof header || header.bytes > kMaxControlBytes ||
      bytes != sizeof header + header.bytes) {
    rdma_disconnect(id_.get());
    return false;
  }
  Message& reply = messages_[kControlDepth + next_reply_++ % kControlDepth];
  const std::span<std::byte, kMaxControlBytes> room(reply.bytes + sizeof header, kMaxControlBytes);
  header.bytes = handler.Handle(client_uuid_, {request + sizeof header, header.bytes}, room);
  std::memcpy(reply.bytes, &header, sizeof header);

  // Free the request's slot before the client sees the reply and sends another request.
  if (!PostReceive(slot)) return false;
  ibv_sge piece{reinterpret_cast<uintptr_t>(reply.bytes),
                static_cast<uint32_t>(sizeof header + header.bytes), messages_region_->lkey};
  ibv_send_wr send{};
  send.wr_id = kReplySent;
  send.sg_list = &piece;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  --free_replies_;
  return ibv_post_send(id_->qp, &send, &refused) == 0;
}

}  // namespace gossamer::verbs
