#include "common/fabric/verbs/connect.h"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "common/fabric/verbs/device_facts.h"
#include "common/fabric/verbs/path.h"

namespace gossamer::verbs {
namespace {

// Reject reasons of the InfiniBand connection manager (IBTA 12.6.7.2).
constexpr int kInvalidServiceId = 8;
constexpr int kStaleConnection = 10;
constexpr int kConsumerReject = 28;

// How long `Await` waits for an event before it reads the clock.
constexpr int kWaitMs = 10;

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

bool ConnectRetry::Again(const Error& error) {
  if (error.code != Code::kContended || Clock::now() >= deadline_) return false;
  // Randomised: probes that collided once would collide again after equal pauses.
  next_try_ = Clock::now() + std::chrono::microseconds(500 + random_() % 10'000);
  return true;
}

AttemptEnd ConnectRetry::NextEnd() const {
  const Clock::time_point half = deadline_ - half_;
  const bool is_last = Clock::now() >= half;
  return {is_last ? deadline_ : half, is_last};
}

// ---- One attempt

int ConnectAttempt::left_ms() const {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_.at - Clock::now());
  return static_cast<int>(std::max<int64_t>(left.count(), 0));
}

Error ConnectAttempt::Unreachable(const std::string& why) const {
  return MakeError(Code::kNodeUnreachable, ToString(address_) + ": " + why);
}

Error ConnectAttempt::UnreachableNow(const std::string& why) const {
  Error error = Unreachable(why);
  if (!end_.is_last) error.code = Code::kContended;
  return error;
}

Error ConnectAttempt::Unexpected(const Event& event) const {
  std::string why = rdma_event_str(event.type);
  if (event.status < 0) why += ": " + ErrnoText(-event.status);
  const bool is_of_network = event.type == RDMA_CM_EVENT_ADDR_ERROR ||
                             event.type == RDMA_CM_EVENT_ROUTE_ERROR ||
                             event.type == RDMA_CM_EVENT_UNREACHABLE;
  return is_of_network ? UnreachableNow(why) : Unreachable(why);
}

Result<ConnectAttempt> ConnectAttempt::Begin(const SocketAddress& address, const Device* device,
                                             const ComputePortOptions& options, AttemptEnd end) {
  ConnectAttempt attempt(address, device, options, end);
  BOOST_OUTCOME_TRYV(attempt.ResolveAddress());
  return attempt;
}

Status ConnectAttempt::ResolveAddress() {
  BOOST_OUTCOME_TRYV(OpenConnectionManager(connection_.channel, connection_.id));
  channel_ = connection_.channel.get();
  BOOST_OUTCOME_TRYV(SetNonBlocking(channel_->fd));
  rdma_cm_id* const id = connection_.id.get();

  SocketAddress to = address_;
  SocketAddress from;
  const bool choose_source = options_->rdma.gid_index >= 0 && device_ != nullptr;
  if (choose_source) {
    BOOST_OUTCOME_TRY(address, AddressOfGid(*device_, options_->rdma, to.address().is_v6()));
    from = address;
  }
  if (rdma_resolve_addr(id, choose_source ? from.data() : nullptr, to.data(), left_ms()) != 0) {
    return Unreachable("no RDMA device reaches it (" + ErrnoText(errno) + ")");
  }
  return Ok();
}

// The device is known now: check that it is the right one.
Status ConnectAttempt::ResolveRoute() {
  rdma_cm_id* const id = connection_.id.get();
  if (id->verbs == nullptr) return Unreachable("no RDMA device reaches it");
  BOOST_OUTCOME_TRYV(CheckDeviceAndPort(*id, options_->rdma, address_, false));
  if (device_ != nullptr && device_->verbs() != id->verbs) {
    return MakeError(Code::kUnsupported,
                     ToString(address_) + " is reached by device " +
                         ibv_get_device_name(id->verbs->device) + ", other memory servers by " +
                         device_->name() +
                         ": all memory servers of a compute server share one device");
  }
  BOOST_OUTCOME_TRYV(SetTrafficClass(*id, options_->rdma));
  uint8_t ack_timeout = ClientAckTimeout(options_->connection_timeout_ms);
  if (rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack_timeout,
                      sizeof ack_timeout) != 0) {
    return ErrnoError(Code::kUnsupported, "setting the ACK timeout of a connection");
  }
  if (rdma_resolve_route(id, left_ms()) != 0) {
    return Unreachable("no RDMA route (" + ErrnoText(errno) + ")");
  }
  return Ok();
}

Result<std::optional<ConnectAttempt::Event>> ConnectAttempt::NextEvent() {
  rdma_cm_event* raw = nullptr;
  if (rdma_get_cm_event(channel_, &raw) != 0) {
    if (errno != EINTR && errno != EAGAIN) {
      return ErrnoError(Code::kNodeUnreachable, "waiting for " + ToString(address_));
    }
    if (Clock::now() < end_.at) return std::nullopt;
    return UnreachableNow(fmt::format("no answer within {} ms", options_->connection_timeout_ms));
  }
  Event event{raw->event, raw->status, {}, 0};
  const rdma_conn_param& param = raw->param.conn;
  if (param.private_data != nullptr) {
    event.private_bytes = std::min<size_t>(param.private_data_len, event.private_data.size());
    std::memcpy(event.private_data.data(), param.private_data, event.private_bytes);
  }
  rdma_ack_cm_event(raw);
  return event;
}

Status ConnectAttempt::OnEvent(const Event& event) {
  if (stage_ == Stage::kAddress) {
    if (event.type != RDMA_CM_EVENT_ADDR_RESOLVED) return Unexpected(event);
    BOOST_OUTCOME_TRYV(ResolveRoute());
    stage_ = Stage::kRoute;
  } else if (stage_ == Stage::kRoute) {
    if (event.type != RDMA_CM_EVENT_ROUTE_RESOLVED) return Unexpected(event);
    stage_ = Stage::kResolved;
  } else {
    answer_ = event;
    stage_ = Stage::kAnswered;
  }
  return Ok();
}

Status ConnectAttempt::Await(const std::atomic<bool>* is_cancelled) {
  while (stage_ != Stage::kResolved && stage_ != Stage::kAnswered) {
    BOOST_OUTCOME_TRY(event, NextEvent());
    if (event) {
      BOOST_OUTCOME_TRYV(OnEvent(*event));
    } else if (is_cancelled != nullptr && is_cancelled->load(std::memory_order_relaxed)) {
      return MakeError(Code::kContended, "connecting was given up");
    } else {
      pollfd waiting{channel_->fd, POLLIN, 0};
      poll(&waiting, 1, kWaitMs);
    }
  }
  return Ok();
}

Result<Connection> ConnectAttempt::MakeQueuePair(const Peer& peer, ibv_pd* domain, ibv_cq* queue) {
  ibv_qp_init_attr_ex wanted = QueuePairAttributes(peer.device->queue_pair_size(), domain, queue);
  if (rdma_create_qp_ex(connection_.id.get(), &wanted) != 0) {
    const int error = errno;
    return LockingError(Code::kNoResources, "making a queue pair on " + peer.device->name(), error);
  }
  return TakeConnection();
}

Status ConnectAttempt::Send(const Connection& connection, const ConnectRequest& request) {
  rdma_conn_param param{};
  param.private_data = &request;
  param.private_data_len = sizeof request;
  param.initiator_depth = device_ == nullptr ? 1 : device_->initiator_depth();
  param.responder_resources = 0;  // The server reads nothing of ours.
  param.retry_count = kRetryCount;
  param.rnr_retry_count = kRnrRetryCount;
  if (rdma_connect(connection.id.get(), &param) != 0) {
    return Unreachable("connecting (" + ErrnoText(errno) + ")");
  }
  stage_ = Stage::kAsked;
  return Ok();
}

// ---- The answer

std::optional<ConnectReply> ConnectAttempt::ReadReply(const Event& event) {
  ConnectReply info;
  if (event.private_bytes < sizeof info) return std::nullopt;
  std::memcpy(&info, event.private_data.data(), sizeof info);
  if (info.magic != kProtocolMagic) return std::nullopt;
  return info;
}

Error ConnectAttempt::Rejected() const {
  const std::optional<ConnectReply> info = ReadReply(answer_);
  if (!info || answer_.status != kConsumerReject) {
    if (answer_.status == kInvalidServiceId) return Unreachable("nobody listens there");
    if (answer_.status == kStaleConnection) {
      return MakeError(Code::kContended,
                       ToString(address_) + ": taken for a connection that has not ended yet");
    }
    return Unreachable(fmt::format("connection rejected, reason {}", answer_.status));
  }
  switch (info->reason) {
    case RejectReason::kProtocol:
      return MakeError(Code::kUnsupported,
                       fmt::format("{} speaks version {} of the protocol, this program {}",
                                   ToString(address_), info->version, kProtocolVersion));
    case RejectReason::kOtherIncarnation: return Unreachable(std::string(kStartedAnew));
    case RejectReason::kResources:
      return MakeError(Code::kNoResources,
                       ToString(address_) + " has no resources for another queue pair");
    case RejectReason::kNone: break;
  }
  return Unreachable("connection rejected");
}

Result<ConnectReply> ConnectAttempt::Probed() const {
  if (answer_.type != RDMA_CM_EVENT_REJECTED) return Unexpected(answer_);
  const std::optional<ConnectReply> info = ReadReply(answer_);
  if (!info || info->reason != RejectReason::kNone) return Rejected();
  return *info;
}

Status ConnectAttempt::Established(Connection& connection) const {
  if (answer_.type == RDMA_CM_EVENT_REJECTED) return Rejected();
  if (answer_.type != RDMA_CM_EVENT_ESTABLISHED) return Unexpected(answer_);
  const std::optional<ConnectReply> info = ReadReply(answer_);
  if (!info) return Unreachable("what answers there is no memory server");
  connection.server = *info;
  return CheckPath(connection);
}

Status ConnectAttempt::CheckPath(Connection& connection) const {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  const int error =
      ibv_query_qp(connection.id->qp, &attributes, IBV_QP_PATH_MTU | IBV_QP_AV, &initial);
  if (error != 0) {
    return MakeError(Code::kUnsupported, "asking a queue pair for its MTU: " + ErrnoText(error));
  }
  connection.path_mtu = MtuBytes(attributes.path_mtu);
  const ComputePortOptions& options = *options_;
  BOOST_OUTCOME_TRYV(CheckPathMtu(options, connection.path_mtu, ToString(address_)));
  BOOST_OUTCOME_TRYV(
      CheckWantedMtu(options.rdma, connection.path_mtu, "the path to " + ToString(address_)));
  if (options.rdma.gid_index >= 0 && attributes.ah_attr.is_global != 0 &&
      attributes.ah_attr.grh.sgid_index != options.rdma.gid_index) {
    return MakeError(
        Code::kInvalidArgument,
        fmt::format("the connection manager uses gid index {} to reach {}, not {}",
                    attributes.ah_attr.grh.sgid_index, ToString(address_), options.rdma.gid_index));
  }
  return Ok();
}

// ---- Probing

namespace {

Result<Peer> ProbeOnce(const SocketAddress& address, uint64_t incarnation,
                       std::shared_ptr<Device> device, const ComputePortOptions& options,
                       AttemptEnd end) {
  BOOST_OUTCOME_TRY(attempt, ConnectAttempt::Begin(address, device.get(), options, end));
  BOOST_OUTCOME_TRYV(attempt.Await());
  if (device == nullptr) {
    BOOST_OUTCOME_TRY(opened, Device::Open(attempt.verbs()));
    device = std::move(opened);
  }
  ConnectRequest request;
  request.client_uuid = options.client_uuid;
  request.incarnation = incarnation;
  const Connection connection = attempt.TakeConnection();
  BOOST_OUTCOME_TRYV(attempt.Send(connection, request));
  BOOST_OUTCOME_TRYV(attempt.Await());
  BOOST_OUTCOME_TRY(info, attempt.Probed());
  Peer peer{address, std::move(device), info.incarnation, {}, connection.id->port_num};
  peer.facts = FactsOf(*peer.device, *connection.id);
  return peer;
}

}  // namespace

Result<Peer> ProbePeer(const SocketAddress& address, uint64_t incarnation,
                       const std::shared_ptr<Device>& device, const ComputePortOptions& options) {
  ConnectRetry retry(options);
  while (true) {
    Result<Peer> peer = ProbeOnce(address, incarnation, device, options, retry.NextEnd());
    if (peer || !retry.Again(peer.error())) return peer;
    std::this_thread::sleep_until(retry.next_try());
  }
}

}  // namespace gossamer::verbs
