// The memory server's end of one connection: its queue pair, and the buffers of control messages.
//
// Each connection has a completion queue of its own, on the completion channel of the control
// thread: it is exactly as large as its queue pair needs, and nothing of a destroyed connection is
// left in it.
//
// Thread-safety: none; connections belong to the control thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "common/fabric/fabric.h"
#include "common/fabric/verbs/device.h"
#include "common/fabric/verbs/resources.h"
#include "common/fabric/verbs/wire.h"

namespace gossamer::verbs {

class ClientConnection {
 public:
  // Takes over `id`, of a connect request, unless it fails; makes its queue pair, with receives
  // posted.
  static Result<std::unique_ptr<ClientConnection>> Open(const Device& device, ConnectionId& id,
                                                        ibv_comp_channel* channel,
                                                        uint64_t client_uuid,
                                                        uint64_t connection_id);
  // The queue pair is destroyed: no verb of the client lands through it any more.
  ~ClientConnection();

  uint64_t client_uuid() const { return client_uuid_; }
  uint64_t connection_id() const { return connection_id_; }
  rdma_cm_id* id() const { return id_.get(); }

  // The client has the connection too: sign of life may be asked of it.
  void OnEstablished() { established_ = true; }
  // Asks the client's device for a sign of life, by a WRITE of nothing: a client whose machine is
  // gone says no goodbye. A process that is merely stopped is answered for by its device.
  void AskForLife();
  // No sign of life came in the time of all retries, or the queue pair broke some time ago and was
  // not replaced.
  bool lost() const { return lost_; }

  // Answers requests that have come, but only so many that others have their turn. Returns whether
  // more may have come: the completion channel names this connection for what comes later only.
  bool Serve(ControlHandler& handler);
  // Asks for one event when something comes; what has come already is served by the caller
  // afterwards.
  void Arm();

 private:
  ClientConnection(ConnectionId id, uint64_t client_uuid, uint64_t connection_id)
      : id_(std::move(id)), client_uuid_(client_uuid), connection_id_(connection_id) {}
  Status Prepare(const Device& device, ibv_comp_channel* channel);
  bool PostReceive(uint32_t slot);
  void OnCompletion(const ibv_wc& completion);
  bool Answer(ControlHandler& handler, uint32_t slot, uint32_t bytes);

  struct Message {
    std::byte bytes[kControlSlotBytes];
  };
  struct Request {
    uint32_t slot;
    uint32_t bytes;
  };

  // In the order of their making: the queue pair goes before its completion queue and its buffers.
  std::array<Message, 2 * kControlDepth> messages_{};  // requests, then replies
  MemoryRegion messages_region_;
  CompletionQueue queue_;
  ConnectionId id_;
  uint64_t client_uuid_;
  uint64_t connection_id_;
  uint32_t free_replies_ = kControlDepth;
  uint32_t next_reply_ = 0;
  bool established_ = false;
  bool asked_for_life_ = false;  // and no answer yet
  uint32_t times_broken_ = 0;    // how often the queue pair was found in its error state
  bool lost_ = false;
  std::deque<Request> requests_;  // that wait for a free reply
};

}  // namespace gossamer::verbs
