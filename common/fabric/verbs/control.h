// The memory server's control thread: accepts and ends connections, and answers control messages.
//
// Invariants: a compute server is gone (`ControlHandler::ClientGone`) once, when its last queue
// pair has been destroyed; a connection that replaces another is accepted after that one's queue
// pair has been destroyed (rule U1); a client that leaves without a goodbye is gone within the
// connection time-out; however fast one client sends, others and leases have their turn.
//
// Thread-safety: `Start` and `Stop` belong to one thread, `Fence` to any; everything else happens
// on the control thread. One-sided verbs pass it by.
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

#include "common/fabric/fabric.h"
#include "common/fabric/verbs/client_connection.h"
#include "common/fabric/verbs/device.h"
#include "common/fabric/verbs/resources.h"
#include "common/fabric/verbs/wire.h"

namespace gossamer::verbs {

class ControlService {
 public:
  // `listener` is bound, and its events come on `channel`; both outlive the service.
  ControlService(const Device& device, rdma_event_channel* channel, rdma_cm_id* listener,
                 const ServerInfo& info, uint32_t connection_timeout_ms);
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
  void OnDeviceEvents();
  void AskForLife();
  // That of a compute server; unless there is none of that name.
  void DropOld(uint64_t client_uuid, uint64_t connection_id);
  void Drop(ClientConnection* connection);
  void Count(uint64_t client_uuid, int change);

  const Device& device_;
  rdma_event_channel* const channel_;
  rdma_cm_id* const listener_;
  ServerInfo info_;
  const uint32_t connection_timeout_ms_;
  CompletionChannel completion_channel_;
  int wake_fd_ = -1;
  ControlHandler* handler_ = nullptr;
  std::map<ClientConnection*, std::unique_ptr<ClientConnection>> connections_;
  std::set<ClientConnection*> ready_;  // from which requests may have come
  Clock::time_point next_ask_;
  Clock::time_point next_tick_;
  std::map<uint64_t, int> queue_pairs_;  // of each compute server
  uint64_t next_connection_id_ = 1;
  std::atomic<bool> stopping_ = false;
  std::mutex fence_mutex_;
  std::vector<uint64_t> to_fence_;  // client uuids; guarded by fence_mutex_
  std::thread thread_;
};

}  // namespace gossamer::verbs
