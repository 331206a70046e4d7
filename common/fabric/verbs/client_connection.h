// The memory server's end of one connection: its queue pair, and the buffers of control messages.
//
// Each connection has its own completion queue on the completion channel of the control thread:
// exactly as large as its queue pair needs, and destroyed with the connection and all its
// completions.
//
// Thread-safety: none; connections belong to the control thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "common/fabric/memory_port.h"
#include "common/fabric/verbs/device.h"
#include "common/fabric/verbs/resources.h"
#include "common/fabric/verbs/wire.h"

namespace gossamer::verbs {

// Requests for a sign of life within the time for which a client may be silent.
inline constexpr uint32_t kLifePeriods = 4;

class ClientConnection {
 public:
  // Makes the queue pair of connect request `id`, with receives posted. Takes over `id` unless it
  // fails.
  static Result<std::unique_ptr<ClientConnection>> Open(const Device& device, ConnectionId& id,
                                                        ibv_comp_channel* channel,
                                                        uint64_t client_uuid,
                                                        uint64_t connection_id);
  // Destroys the queue pair: no verb of the client lands through it any more.
  ~ClientConnection();

  uint64_t client_uuid() const { return client_uuid_; }
  uint64_t connection_id() const { return connection_id_; }
  rdma_cm_id* id() const { return id_.get(); }

  // The client has the connection, too: from now on it may be asked for a sign of life.
  void OnEstablished() { established_ = true; }
  // Requests a sign of life from the client's device by a WRITE of length 0, because a client whose
  // machine is gone sends no disconnect. The device also answers for a process that is merely
  // stopped. Called once in each of the periods.
  void AskForLife();
  // True if no sign of life came for all periods, or if the queue pair broke so long ago and was not
  // replaced: a network that is down for less costs the client nothing.
  bool lost() const { return lost_; }

  // Answers requests that have arrived, up to a limit so that other connections get their turn.
  // Returns whether more may have arrived: the completion channel reports this connection only for
  // later arrivals.
  bool Serve(ControlHandler& handler);
  // Requests one event for the next arrival. The caller then serves what has already arrived.
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

  // In order of construction: the queue pair is destroyed before its completion queue and buffers.
  std::array<Message, 2 * kControlDepth> messages_{};  // requests, then replies
  MemoryRegion messages_region_;
  CompletionQueue queue_;
  ConnectionId id_;
  uint64_t client_uuid_;
  uint64_t connection_id_;
  uint32_t free_replies_ = kControlDepth;
  uint32_t next_reply_ = 0;
  bool established_ = false;
  uint32_t unanswered_ = 0;    // periods since the last sign of life was requested; 0: it came
  uint32_t times_broken_ = 0;  // times the queue pair was found in its error state
  bool lost_ = false;
  std::deque<Request> requests_;  // waiting for a free reply
};

}  // namespace gossamer::verbs
