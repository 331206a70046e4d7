#include "common/fabric/verbs/queue_pair.h"

#include <cassert>
#include <cstring>

#include "common/fabric/verbs/wire.h"

namespace gossamer::verbs {

bool QueuePair::PostCall(ControlCall& call) {
  assert(free_sends != 0 && free_replies != 0);
  const ControlHeader header{next_request++, call.request_bytes};
  const uint32_t slot = header.sequence % kControlDepth;
  const LocalAddress message = slots.address(slot * kControlSlotBytes);
  std::memcpy(message.data, &header, sizeof header);
  std::memcpy(message.data + sizeof header, call.request.data(), call.request_bytes);
  ibv_sge piece{AddressNumber(message.data),
                static_cast<uint32_t>(sizeof header + call.request_bytes), message.key};
  ibv_send_wr request{};
  request.wr_id = work_id_base() | next_sequence++;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  --free_sends;
  --free_replies;
  calls_sent.Push(call);
  in_flight.PushBack({Posted::Kind::kCall, 1, nullptr, 0});
  ibv_send_wr* refused = nullptr;
  return ibv_post_send(connection.id->qp, &request, &refused) == 0;
}

bool QueuePair::PostNudge() {
  if (free_nudges == 0) return true;
  --free_nudges;
  ibv_send_wr request{};
  request.wr_id = work_id_base() | next_sequence++;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = memory[0].address;
  request.wr.rdma.rkey = memory[0].key;
  in_flight.PushBack({Posted::Kind::kNudge, 1, nullptr, 0});
  ibv_send_wr* refused = nullptr;
  return ibv_post_send(connection.id->qp, &request, &refused) == 0;
}

bool QueuePair::PostReceive(uint32_t slot) {
  const LocalAddress message = slots.address((kControlDepth + slot) * kControlSlotBytes);
  ibv_sge piece{AddressNumber(message.data), kControlSlotBytes, message.key};
  ibv_recv_wr request{};
  request.wr_id = work_id_base() | WorkId::kReplyBit | slot;
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* refused = nullptr;
  return ibv_post_recv(connection.id->qp, &request, &refused) == 0;
}

}  // namespace gossamer::verbs
