#include "common/fabric/verbs_connect.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <thread>

namespace gossamer::verbs {
namespace {

using Clock = std::chrono::steady_clock;

// Reasons of the InfiniBand connection manager for a reject (IBTA 12.6.7.2).
constexpr int kInvalidServiceId = 8;
constexpr int kStaleConnection = 10;
constexpr int kConsumerReject = 28;

struct Event {
  rdma_cm_event_type type;
  int status;
  std::array<std::byte, 256> private_data{};
  size_t private_bytes = 0;
};

// The connect and its bound, and whom error messages are about.
struct Attempt {
  const SocketAddress& address;
  const ComputePortOptions& options;
  Clock::time_point deadline;

  Attempt(const SocketAddress& to, const ComputePortOptions& with)
      : address(to),
        options(with),
        deadline(Clock::now() + std::chrono::milliseconds(with.connection_timeout_ms)) {}

  int left_ms() const {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    return static_cast<int>(std::max<int64_t>(left.count(), 0));
  }
  Error Unreachable(const std::string& why) const {
    return MakeError(Code::kNodeUnreachable, address.ToString() + ": " + why);
  }
};

Result<Event> WaitForEvent(rdma_event_channel* channel, const Attempt& attempt) {
  pollfd waiting{channel->fd, POLLIN, 0};
  while (true) {
    const int ready = poll(&waiting, 1, attempt.left_ms());
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      return attempt.Unreachable("no answer within " +
                                 std::to_string(attempt.options.connection_timeout_ms) + " ms");
    }
    rdma_cm_event* raw = nullptr;
    if (rdma_get_cm_event(channel, &raw) != 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return ErrnoError(Code::kNodeUnreachable, "waiting for " + attempt.address.ToString());
    }
    Event event{raw->event, raw->status};
    const rdma_conn_param& param = raw->param.conn;
    if (param.private_data != nullptr) {
      event.private_bytes = std::min<size_t>(param.private_data_len, event.private_data.size());
      std::memcpy(event.private_data.data(), param.private_data, event.private_bytes);
    }
    rdma_ack_cm_event(raw);
    return event;
  }
}

std::optional<ServerInfo> ReadServerInfo(const Event& event) {
  ServerInfo info;
  if (event.private_bytes < sizeof info) return std::nullopt;
  std::memcpy(&info, event.private_data.data(), sizeof info);
  if (info.magic != kProtocolMagic) return std::nullopt;
  return info;
}

Error Rejected(const Event& event, const Attempt& attempt) {
  const std::optional<ServerInfo> info = ReadServerInfo(event);
  if (!info || event.status != kConsumerReject) {
    if (event.status == kInvalidServiceId) return attempt.Unreachable("nobody listens there");
    if (event.status == kStaleConnection) {
      return MakeError(Code::kContended, attempt.address.ToString() +
                                             ": taken for a connection that has not ended yet");
    }
    return attempt.Unreachable("connection rejected, reason " + std::to_string(event.status));
  }
  switch (info->reason) {
    case RejectReason::kProtocol:
      return MakeError(Code::kUnsupported, attempt.address.ToString() + " speaks version " +
                                               std::to_string(info->version) +
                                               " of the protocol, this program " +
                                               std::to_string(kProtocolVersion));
    case RejectReason::kOtherIncarnation: return attempt.Unreachable(std::string(kStartedAnew));
    case RejectReason::kResources:
      return MakeError(Code::kExhausted,
                       attempt.address.ToString() + " has no resources for another queue pair");
    case RejectReason::kNone: break;
  }
  return attempt.Unreachable("connection rejected");
}

Error Unexpected(const Event& event, const Attempt& attempt) {
  std::string why = rdma_event_str(event.type);
  if (event.status < 0) why += ": " + ErrnoText(-event.status);
  return attempt.Unreachable(why);
}

Status Expect(rdma_event_channel* channel, rdma_cm_event_type type, const Attempt& attempt) {
  BOOST_OUTCOME_TRY(event, WaitForEvent(channel, attempt));
  if (event.type != type) return Unexpected(event, attempt);
  return Ok();
}

// The address of this machine that belongs to entry `gid_index`, to be the source of connections.
Result<SocketAddress> AddressOfGid(const Device& device, int gid_index, sa_family_t family) {
  ibv_gid gid{};
  if (ibv_query_gid(device.verbs(), 1, gid_index, &gid) != 0) {
    return MakeError(Code::kInvalidArgument,
                     device.name() + " has no gid with index " + std::to_string(gid_index));
  }
  SocketAddress address;
  if (family == AF_INET) {
    auto* inet = reinterpret_cast<sockaddr_in*>(&address.storage);
    inet->sin_family = AF_INET;
    std::memcpy(&inet->sin_addr, gid.raw + 12, 4);
  } else {
    auto* inet = reinterpret_cast<sockaddr_in6*>(&address.storage);
    inet->sin6_family = AF_INET6;
    std::memcpy(&inet->sin6_addr, gid.raw, 16);
  }
  return address;
}

// Finds the local device and the route.
Result<Connection> ResolvePath(const Attempt& attempt, const Device* device) {
  Connection connection;
  connection.channel.reset(rdma_create_event_channel());
  if (!connection.channel) {
    return ErrnoError(Code::kUnsupported, "opening the RDMA connection manager");
  }
  BOOST_OUTCOME_TRYV(SetNonBlocking(connection.channel->fd));
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(connection.channel.get(), &id, nullptr, RDMA_PS_TCP) != 0) {
    return ErrnoError(Code::kExhausted, "making an RDMA communication identifier");
  }
  connection.id.reset(id);

  SocketAddress to = attempt.address;
  SocketAddress from;
  const bool choose_source = attempt.options.gid_index >= 0 && device != nullptr;
  if (choose_source) {
    BOOST_OUTCOME_TRY(address,
                      AddressOfGid(*device, attempt.options.gid_index, to.storage.ss_family));
    from = address;
  }
  if (rdma_resolve_addr(id, choose_source ? from.get() : nullptr, to.get(), attempt.left_ms()) !=
      0) {
    return attempt.Unreachable("no RDMA device reaches it (" + ErrnoText(errno) + ")");
  }
  BOOST_OUTCOME_TRYV(Expect(connection.channel.get(), RDMA_CM_EVENT_ADDR_RESOLVED, attempt));
  if (id->verbs == nullptr) return attempt.Unreachable("no RDMA device reaches it");
  const std::string name = ibv_get_device_name(id->verbs->device);
  if (!attempt.options.device.empty() && attempt.options.device != name) {
    return MakeError(Code::kInvalidArgument, attempt.address.ToString() + " is reached by device " +
                                                 name + ", not by " + attempt.options.device);
  }
  if (device != nullptr && device->verbs() != id->verbs) {
    return MakeError(Code::kUnsupported,
                     attempt.address.ToString() + " is reached by device " + name +
                         ", other memory servers by " + device->name() +
                         ": all memory servers of a compute server share one device");
  }

  uint8_t ack_timeout = AckTimeoutExponent(attempt.options.connection_timeout_ms, kRetryCount);
  if (rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack_timeout,
                      sizeof ack_timeout) != 0) {
    return ErrnoError(Code::kUnsupported, "setting the ACK timeout of a connection");
  }
  if (rdma_resolve_route(id, attempt.left_ms()) != 0) {
    return attempt.Unreachable("no RDMA route (" + ErrnoText(errno) + ")");
  }
  BOOST_OUTCOME_TRYV(Expect(connection.channel.get(), RDMA_CM_EVENT_ROUTE_RESOLVED, attempt));
  return connection;
}

Result<Event> SendRequest(Connection& connection, const ConnectRequest& request,
                          const Device* device, const Attempt& attempt) {
  rdma_conn_param param{};
  param.private_data = &request;
  param.private_data_len = sizeof request;
  param.initiator_depth = device == nullptr ? 1 : device->initiator_depth();
  param.responder_resources = 0;  // The server reads nothing of ours.
  param.retry_count = kRetryCount;
  param.rnr_retry_count = kRnrRetryCount;
  if (rdma_connect(connection.id.get(), &param) != 0) {
    return attempt.Unreachable("connecting (" + ErrnoText(errno) + ")");
  }
  return WaitForEvent(connection.channel.get(), attempt);
}

Status CheckPath(Connection& connection, const Attempt& attempt) {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  const int error =
      ibv_query_qp(connection.id->qp, &attributes, IBV_QP_PATH_MTU | IBV_QP_AV, &initial);
  if (error != 0) {
    return MakeError(Code::kUnsupported, "asking a queue pair for its MTU: " + ErrnoText(error));
  }
  connection.path_mtu = MtuBytes(attributes.path_mtu);
  const ComputePortOptions& options = attempt.options;
  if (options.path_mtu != 0 && options.path_mtu != connection.path_mtu) {
    return MakeError(Code::kInvalidArgument, "the path to " + attempt.address.ToString() +
                                                 " has an MTU of " +
                                                 std::to_string(connection.path_mtu) +
                                                 " bytes, not " + std::to_string(options.path_mtu) +
                                                 ": set the MTU of the network interface");
  }
  if (options.gid_index >= 0 && attributes.ah_attr.is_global != 0 &&
      attributes.ah_attr.grh.sgid_index != options.gid_index) {
    return MakeError(Code::kInvalidArgument, "the connection manager uses gid index " +
                                                 std::to_string(attributes.ah_attr.grh.sgid_index) +
                                                 " to reach " + attempt.address.ToString() +
                                                 ", not " + std::to_string(options.gid_index));
  }
  return Ok();
}

}  // namespace

Connection::~Connection() {
  if (id != nullptr && path_mtu != 0) rdma_disconnect(id.get());
  id.reset();
}

void Connection::Break() {
  if (id == nullptr || id->qp == nullptr) return;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(id->qp, &attributes, IBV_QP_STATE);
}

bool Connection::PeerIsGone() {
  if (channel == nullptr) return true;
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel.get(), &event) != 0) return false;
  rdma_ack_cm_event(event);
  return true;  // After establishment, every event is an end.
}

namespace {

Result<Peer> ProbeOnce(const Attempt& attempt, uint64_t incarnation,
                       std::shared_ptr<Device> device) {
  BOOST_OUTCOME_TRY(connection, ResolvePath(attempt, device.get()));
  if (device == nullptr) {
    BOOST_OUTCOME_TRY(opened, Device::Open(connection.id->verbs));
    device = std::move(opened);
  }
  ConnectRequest request;
  request.client_uuid = attempt.options.client_uuid;
  request.incarnation = incarnation;
  BOOST_OUTCOME_TRY(event, SendRequest(connection, request, device.get(), attempt));
  if (event.type != RDMA_CM_EVENT_REJECTED) return Unexpected(event, attempt);
  const std::optional<ServerInfo> info = ReadServerInfo(event);
  if (!info || info->reason != RejectReason::kNone) return Rejected(event, attempt);
  return Peer{attempt.address, std::move(device), info->incarnation};
}

}  // namespace

Result<Peer> ProbePeer(const SocketAddress& address, uint64_t incarnation,
                       const std::shared_ptr<Device>& device, const ComputePortOptions& options) {
  const Attempt attempt(address, options);
  RetryWhileStale retry(options);
  while (true) {
    Result<Peer> peer = ProbeOnce(attempt, incarnation, device);
    if (peer || !retry.Again(peer.error())) return peer;
  }
}

bool RetryWhileStale::Again(const Error& error) {
  if (error.code != Code::kContended || Clock::now() >= deadline_) return false;
  // Probes that met once would meet again after the same time.
  std::this_thread::sleep_for(std::chrono::microseconds(500 + random_() % 10'000));
  return true;
}

Result<Connection> PrepareConnection(const Peer& peer, ibv_cq* queue,
                                     const ComputePortOptions& options) {
  const Attempt attempt(peer.address, options);
  BOOST_OUTCOME_TRY(connection, ResolvePath(attempt, peer.device.get()));
  const QueuePairSize& size = peer.device->queue_pair_size();
  ibv_qp_init_attr wanted{};
  wanted.qp_type = IBV_QPT_RC;
  wanted.send_cq = wanted.recv_cq = queue;
  wanted.cap = {SendDepth(size.verbs), kControlDepth, 1, 1, size.inline_bytes};
  if (rdma_create_qp(connection.id.get(), peer.device->protection_domain(), &wanted) != 0) {
    return ErrnoError(Code::kExhausted, "making a queue pair on " + peer.device->name());
  }
  return std::move(connection);
}

Status EstablishConnection(Connection& connection, const Peer& peer, uint64_t replaces,
                           const ComputePortOptions& options) {
  const Attempt attempt(peer.address, options);
  ConnectRequest request;
  request.kind = RequestKind::kAttach;
  request.client_uuid = options.client_uuid;
  request.incarnation = peer.incarnation;
  request.replaces = replaces;
  BOOST_OUTCOME_TRY(event, SendRequest(connection, request, peer.device.get(), attempt));
  if (event.type == RDMA_CM_EVENT_REJECTED) return Rejected(event, attempt);
  if (event.type != RDMA_CM_EVENT_ESTABLISHED) return Unexpected(event, attempt);
  const std::optional<ServerInfo> info = ReadServerInfo(event);
  if (!info) return attempt.Unreachable("what answers there is no memory server");
  connection.server = *info;
  return CheckPath(connection, attempt);
}

}  // namespace gossamer::verbs
