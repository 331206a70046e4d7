// The memory server's control thread: accepts and ends connections, and answers control messages.
//
// Invariants:
//   - `ControlHandler::ClientGone` is called once per compute server, behind its last queue pair.
//   - A connection that replaces another is accepted once the old queue pair is gone (rule U1).
//   - A client that vanishes without a disconnect is gone within 1¼ times `silence_ms`.
//   - However fast one client sends, other clients and leases get their turn.
//
// Thread-safety: `Start` and `Stop` belong to one thread; any thread may call `Fence`; the control
// thread does everything else. One-sided verbs bypass it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "common/fabric/endpoint.h"
#include "common/fabric/memory_port.h"
#include "common/fabric/verbs/client_connection.h"
#include "common/fabric/verbs/device.h"
#include "common/fabric/verbs/resources.h"
#include "common/fabric/verbs/wire.h"
#include "common/random_id.h"
#include "common/unique_fd.h"

namespace gossamer::verbs {

class ControlService {
 public:
  // Requires (unchecked): `listener` is bound, its events arrive on `channel`, and both outlive the
  // service.
  ControlService(const Device& device, rdma_event_channel* channel, rdma_cm_id* listener,
                 const ConnectReply& info, uint32_t silence_ms);
  ~ControlService() { Stop(); }

  Status Start(ControlHandler& handler);
  // Ends the thread and destroys all queue pairs. No-op when not started.
  void Stop();
  // See MemoryPort::Fence.
  void Fence(uint64_t client_uuid);

 private:
  using Clock = Endpoint::Clock;

  void Run();
  void Wake();
  void RunFences();
  void DropAllOf(uint64_t client_uuid);
  void OnConnectionEvents();
  void OnConnectRequest(rdma_cm_id* id, const rdma_conn_param& param);
  void Accept(ConnectionId id, const ConnectRequest& request, const rdma_conn_param& param);
  void Reject(ConnectionId id, RejectReason reason);
  void OnCompletionEvents();
  void ServeReady();
  void AskForLife();
  // Destroys connection `connection_id` of a compute server. Ignores an unknown id.
  void DropOld(uint64_t client_uuid, uint64_t connection_id);
  void Drop(ClientConnection* connection);
  void Count(uint64_t client_uuid, int change);

  const Device& device_;
  rdma_event_channel* const channel_;
  rdma_cm_id* const listener_;
  ConnectReply info_;
  const uint32_t silence_ms_;
  CompletionChannel completion_channel_;
  UniqueFd wake_event_;
  ControlHandler* handler_ = nullptr;
  std::map<ClientConnection*, std::unique_ptr<ClientConnection>> connections_;
  std::set<ClientConnection*> ready_;  // may have unread requests
  Clock::time_point next_ask_;
  Clock::time_point next_tick_;
  std::map<uint64_t, int> queue_pairs_;  // by compute server
  // Clients that were connected to a former process at this address name its ids.
  uint64_t next_connection_id_ = RandomId() >> 2;
  std::atomic<bool> stopping_ = false;
  std::mutex fence_mutex_;
  std::vector<uint64_t> to_fence_;  // client uuids; guarded by fence_mutex_
  std::thread thread_;
};

}  // namespace gossamer::verbs
