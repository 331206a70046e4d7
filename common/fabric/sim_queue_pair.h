// A queue pair of a simulated network: brings verbs to a memory server and their answers back.
//
// The ordered pairs of CONTRACT.md hold because a verb begins only when those of its queue pair that
// are ordered before it have ended. Thread-safety: none.
#pragma once

#include <cstdint>

#include "common/fabric/fabric.h"
#include "common/fabric/intrusive_queue.h"
#include "common/fabric/sim_operation.h"

namespace gossamer::sim {

class Network;
class Server;
class SimEndpoint;
struct Client;

class QueuePair {
 public:
  QueuePair(Network& network, Server& server, SimEndpoint& endpoint, Client& client)
      : network_(network), server_(server), endpoint_(&endpoint), client_(client) {}
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  Server& server() { return server_; }
  Client& client() { return client_; }
  SimEndpoint* endpoint() { return endpoint_; }  // null once that is gone
  void ForgetEndpoint() { endpoint_ = nullptr; }

  void Post(Batch& batch);
  void Post(ControlCall& call);

  // Breaks it: its endpoint will see the statuses that are left to be seen.
  void Break();
  // Lands or drops what is still on its way.
  void Settle();

  // Events.
  void Arrive(Transit& transit);
  void Deliver(Transit& transit);
  void Run(Operation& operation);
  void Arrive(CallInFlight& call);
  void Deliver(CallInFlight& call);

 private:
  void SendMore();
  void StartEligible();
  void Begin(Operation& operation);
  void Finish(Operation& operation);
  void AnswerFinished();
  void Unlink(Operation& operation);

  Network& network_;
  Server& server_;
  SimEndpoint* endpoint_;
  Client& client_;
  // In the order posted.
  Operation* first_operation_ = nullptr;
  Operation* last_operation_ = nullptr;
  IntrusiveQueue<Transit> in_flight_;
  IntrusiveQueue<Transit> unsent_;
  IntrusiveQueue<CallInFlight> calls_;
  Transit* next_to_answer_ = nullptr;
  uint32_t verbs_in_flight_ = 0;
  bool broken_ = false;
  bool refused_ = false;  // a verb was posted that the server will refuse
  Nanoseconds last_effect_ = 0;
  Nanoseconds last_answer_ = 0;
  Nanoseconds last_call_arrival_ = 0;
  Nanoseconds last_reply_ = 0;
};

}  // namespace gossamer::sim
