#include "common/fabric/verbs/control.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include "common/start_thread.h"

namespace gossamer::verbs {
namespace {

constexpr int kBacklog = 256;
constexpr int kEventsPerTurn = 64;  // of one kind, before the other kinds' turn

}  // namespace

ControlService::ControlService(const Device& device, rdma_event_channel* channel,
                               rdma_cm_id* listener, const ConnectReply& info, uint32_t silence_ms)
    : device_(device),
      channel_(channel),
      listener_(listener),
      info_(info),
      silence_ms_(silence_ms) {}

Status ControlService::Start(ControlHandler& handler) {
  handler_ = &handler;
  completion_channel_.reset(ibv_create_comp_channel(device_.verbs()));
  if (completion_channel_ == nullptr) {
    return ErrnoError(Code::kNoResources, "making a completion channel");
  }
  BOOST_OUTCOME_TRYV(SetNonBlocking(completion_channel_->fd));
  BOOST_OUTCOME_TRYV(SetNonBlocking(channel_->fd));
  wake_event_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_event_) return ErrnoError(Code::kNoResources, "making an event descriptor");
  if (rdma_listen(listener_, kBacklog) != 0) {
    return ErrnoError(Code::kInvalidArgument, "listening for connections");
  }
  BOOST_OUTCOME_TRY(thread, StartThread("serve clients", [this] { Run(); }));
  thread_ = std::move(thread);
  return Ok();
}

void ControlService::Stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  Wake();
  thread_.join();
}

void ControlService::Wake() { eventfd_write(wake_event_.get(), 1); }

// Any thread may fence, even the control thread in the middle of a call.
void ControlService::Fence(uint64_t client_uuid) {
  {
    const std::lock_guard guard(fence_mutex_);
    to_fence_.push_back(client_uuid);
  }
  Wake();
}

void ControlService::RunFences() {
  eventfd_t wakes = 0;
  eventfd_read(wake_event_.get(), &wakes);
  std::vector<uint64_t> clients;
  {
    const std::lock_guard guard(fence_mutex_);
    clients.swap(to_fence_);
  }
  for (const uint64_t client_uuid : clients) DropAllOf(client_uuid);
}

// A connect request that is still unread makes a connection of the client's next life.
void ControlService::DropAllOf(uint64_t client_uuid) {
  for (auto next = connections_.begin(); next != connections_.end();) {
    ClientConnection* connection = (next++)->first;
    if (connection->client_uuid() == client_uuid) Drop(connection);
  }
}

void ControlService::Run() {
  std::array<pollfd, 3> waiting{{{wake_event_.get(), POLLIN, 0},
                                 {completion_channel_->fd, POLLIN, 0},
                                 {channel_->fd, POLLIN, 0}}};
  const std::chrono::milliseconds interval(std::max(silence_ms_ / kLifePeriods, 1U));
  while (true) {
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next_tick_ - Clock::now());
    const int64_t wait_ms = ready_.empty() ? std::max<int64_t>(wait.count(), 0) : 0;
    const int ready = poll(waiting.data(), waiting.size(), static_cast<int>(wait_ms));
    if (stopping_) break;
    const Clock::time_point now = Clock::now();
    if (now >= next_tick_) {
      next_tick_ = now + kTickInterval;
      for (const uint64_t client_uuid : handler_->Tick(now)) DropAllOf(client_uuid);
    }
    if (ready > 0 && waiting[1].revents != 0) OnCompletionEvents();
    ServeReady();
    // Behind the answers that have come meanwhile: this thread may have been stopped for long.
    if (now >= next_ask_) {
      AskForLife();
      next_ask_ = now + interval;
    }
    if (ready <= 0) continue;
    if (waiting[0].revents != 0) RunFences();
    if (waiting[2].revents != 0) OnConnectionEvents();
  }
  while (!connections_.empty()) Drop(connections_.begin()->first);
}

void ControlService::OnCompletionEvents() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  for (int i = 0; i < kEventsPerTurn; ++i) {
    if (ibv_get_cq_event(completion_channel_.get(), &queue, &context) != 0) return;
    ibv_ack_cq_events(queue, 1);
    auto* connection = static_cast<ClientConnection*>(context);
    connection->Arm();
    ready_.insert(connection);
  }
}

// Each connection once: a client whose requests keep coming gets an event for them at once.
void ControlService::ServeReady() {
  for (ClientConnection* connection : std::exchange(ready_, {})) {
    if (connection->Serve(*handler_)) ready_.insert(connection);
    if (connection->lost()) Drop(connection);
  }
}

void ControlService::AskForLife() {
  for (auto next = connections_.begin(); next != connections_.end();) {
    ClientConnection* connection = (next++)->first;
    // Its answer may be there, behind the events of many others.
    if (connection->Serve(*handler_)) ready_.insert(connection);
    connection->AskForLife();
    if (connection->lost()) Drop(connection);
  }
}

void ControlService::OnConnectionEvents() {
  rdma_cm_event* event = nullptr;
  for (int i = 0; i < kEventsPerTurn; ++i) {
    if (rdma_get_cm_event(channel_, &event) != 0) return;
    rdma_cm_id* id = event->id;
    const rdma_cm_event_type type = event->event;
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      std::array<std::byte, 256> data{};
      rdma_conn_param param = event->param.conn;
      if (param.private_data != nullptr) {
        std::memcpy(data.data(), param.private_data,
                    std::min<size_t>(param.private_data_len, data.size()));
      }
      param.private_data = data.data();
      rdma_ack_cm_event(event);
      OnConnectRequest(id, param);
      continue;
    }
    rdma_ack_cm_event(event);  // before its identifier can be destroyed
    switch (type) {
      case RDMA_CM_EVENT_ESTABLISHED:
        static_cast<ClientConnection*>(id->context)->OnEstablished();
        break;
      case RDMA_CM_EVENT_DISCONNECTED:
      case RDMA_CM_EVENT_CONNECT_ERROR:
      case RDMA_CM_EVENT_UNREACHABLE:
      case RDMA_CM_EVENT_REJECTED:
      case RDMA_CM_EVENT_DEVICE_REMOVAL:
      case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        if (id != listener_) {
          Drop(static_cast<ClientConnection*>(id->context));
        } else if (type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
          device_.events().NoteRemoval();
        }
        break;
      default: break;
    }
  }
}

void ControlService::OnConnectRequest(rdma_cm_id* id, const rdma_conn_param& param) {
  ConnectionId owner(id);
  id->context = nullptr;  // inherited from the listener
  ConnectRequest request;
  std::memcpy(&request, param.private_data, sizeof request);
  if (param.private_data_len < sizeof request || request.magic != kProtocolMagic ||
      request.version != kProtocolVersion || request.client_uuid == 0) {
    Reject(std::move(owner), RejectReason::kProtocol);
  } else if (request.incarnation != 0 && request.incarnation != info_.incarnation) {
    Reject(std::move(owner), RejectReason::kOtherIncarnation);
  } else if (request.kind == RequestKind::kProbe) {
    Reject(std::move(owner), RejectReason::kNone);
  } else {
    Accept(std::move(owner), request, param);
  }
}

void ControlService::Reject(ConnectionId id, RejectReason reason) {
  ConnectReply info = info_;
  info.reason = reason;
  rdma_reject(id.get(), &info, sizeof info);
}

void ControlService::Accept(ConnectionId id, const ConnectRequest& request,
                            const rdma_conn_param& param) {
  // Counted from here on, so that a compute server that replaces its only queue pair is not gone.
  Count(request.client_uuid, +1);
  DropOld(request.client_uuid, request.replaces);
  DropOld(request.client_uuid, request.also_destroys);

  uint8_t ack_timeout = ServerAckTimeout(silence_ms_);
  rdma_set_option(id.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack_timeout,
                  sizeof ack_timeout);
  rdma_cm_id* const raw = id.get();
  Result<std::unique_ptr<ClientConnection>> opened = ClientConnection::Open(
      device_, id, completion_channel_.get(), request.client_uuid, next_connection_id_++);
  if (!opened) {
    Reject(std::move(id), RejectReason::kResources);
    Count(request.client_uuid, -1);
    return;
  }
  ClientConnection* connection = opened.value().get();
  connections_.emplace(connection, std::move(opened.value()));
  raw->context = connection;

  ConnectReply info = info_;
  info.connection_id = connection->connection_id();
  rdma_conn_param reply{};
  reply.private_data = &info;
  reply.private_data_len = sizeof info;
  reply.responder_resources = std::min(param.responder_resources, device_.responder_resources());
  reply.initiator_depth = 0;  // The memory server reads nothing of its clients.
  reply.rnr_retry_count = kRnrRetryCount;
  if (rdma_accept(raw, &reply) != 0) Drop(connection);
}

void ControlService::DropOld(uint64_t client_uuid, uint64_t connection_id) {
  const auto old = std::ranges::find_if(connections_, [&](const auto& connection) {
    return connection.second->connection_id() == connection_id &&
           connection.second->client_uuid() == client_uuid;
  });
  if (old != connections_.end()) Drop(old->first);
}

void ControlService::Drop(ClientConnection* connection) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  const uint64_t client_uuid = connection->client_uuid();
  ready_.erase(connection);
  connections_.erase(found);  // destroys the queue pair
  Count(client_uuid, -1);
}

void ControlService::Count(uint64_t client_uuid, int change) {
  int& queue_pairs = queue_pairs_[client_uuid];
  queue_pairs += change;
  if (queue_pairs > 0) return;
  queue_pairs_.erase(client_uuid);
  handler_->ClientGone(client_uuid);
}

}  // namespace gossamer::verbs
