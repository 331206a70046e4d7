// A queue pair of a simulated network: carries verbs to a memory server and their answers back.
//
// A verb sets out only when the verbs of its queue pair that are ordered before it (CONTRACT.md)
// have ended. Other pairs of verbs take effect in random order if the network reorders, in posted
// order if it does not.
//
// A broken queue pair stays active at its memory server until the server destroys it. The verbs
// that survive the break, a set closed under the ordered pairs, take effect late and
// unacknowledged.
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/fabric/intrusive_queue.h"
#include "common/fabric/sim/fault.h"
#include "common/fabric/sim/in_flight.h"
#include "common/fabric/work_request.h"

namespace gossamer::sim {

class SimNetwork;
class Server;
class SimEndpoint;
struct ClientState;

class QueuePair;

// The memory server will learn that the endpoint of a queue pair is gone.
struct Farewell final : Event {
  Farewell() : Event(EventKind::kFarewell) {}

  QueuePair* queue_pair = nullptr;
};

class QueuePair {
 public:
  QueuePair(SimNetwork& network, Server& server, SimEndpoint& endpoint, ClientState& client,
            uint64_t id, uint32_t path_mtu)
      : network_(network),
        server_(server),
        endpoint_(&endpoint),
        client_(client),
        id_(id),
        path_mtu_(path_mtu) {}
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  ~QueuePair();

  Server& server() { return server_; }
  ClientState& client() { return client_; }
  uint64_t id() const { return id_; }            // unique within its server
  SimEndpoint* endpoint() { return endpoint_; }  // null once the endpoint is gone
  void ForgetEndpoint() { endpoint_ = nullptr; }
  // Its link has just been down, and may soon be down again.
  void SetShaky() { shaky_for_ = kShakyFor; }

  void Post(Batch& batch);
  void Post(ControlCall& call);

  // Which verbs without effect at the break survive: some, or only verbs that have begun.
  enum class Late : uint8_t { kSome, kNothing };
  // Breaks it. Its endpoint learns of the break, and of what ended with it, after `notice`.
  void Break(Nanoseconds notice, Late late = Late::kSome);
  // Likewise, and logs `cause` as a fault of its endpoint.
  void Break(Nanoseconds notice, SimFault::Kind cause);
  // Breaks it for an endpoint that is being destroyed: reports nothing and touches no batch.
  void Abandon();
  // Likewise, when the memory server cannot learn of it, or lost packets have not landed yet. Some
  // of these may still land (rules U1, U5) until the memory server destroys the queue pair at
  // `settles_at`.
  void AbandonUnheard(Nanoseconds settles_at);
  bool is_broken() const { return broken_; }
  // Of a broken one: lands or drops now what is still in flight.
  void Settle();
  // Breaks rule B1 instead: WRITEs to a region that outlives the server land later.
  void SettleLate();

  // Events.
  void Leave() { SendMore(); }
  void Arrive(Transit& transit);
  void Deliver(Transit& transit);
  void Run(VerbInFlight& operation);
  void Arrive(CallInFlight& call);
  void Deliver(CallInFlight& call);

  // In queue_pair_story.cc. Whether a listener hears what happens here, and what it is told.
  bool is_told() const;
  void Tell(std::string_view what) const;
  void Tell(std::string_view what, const VerbInFlight& operation) const;
  void TellPosted(const Batch& batch) const;

 private:
  // In queue_pair.cc.
  void SendMore();
  void AnswerFinished();
  // Whether an earlier call than `call`, which arrives, has not been handled yet.
  bool IsBehindAnother(const CallInFlight& call) const;

  // In queue_pair_verbs.cc.
  void AddOperation(Transit& transit, Verb& verb);
  void StartEligible();
  void SetOut(VerbInFlight& operation);
  void QueueAtomic(VerbInFlight& operation);
  void Start(VerbInFlight& operation);
  void ArmActive(VerbInFlight& operation);
  void ReadWord(VerbInFlight& operation);
  void WriteWord(VerbInFlight& operation);
  void Finish(VerbInFlight& operation);
  void Remove(VerbInFlight& operation);
  // At least the end of what is ordered before it, if nothing overtakes.
  Nanoseconds InOrder(Nanoseconds at) const;

  // In queue_pair_loss.cc.
  bool BreaksNow();
  bool LosesLinkNow();
  // Whether its client dies before `operation` takes effect, a WRITE behind others of its batch.
  bool DiesBefore(const VerbInFlight& operation);
  // Returns whether any verb ends as kUnknown.
  bool SetStatusesOfBroken();
  void BreakRefused();
  void EndTransits(IntrusiveQueue<Batch>& ended);
  // `may_arrive`: requests in flight may still arrive.
  void EndCalls(IntrusiveQueue<ControlCall>& ended, bool may_arrive);
  void ForgetCalls();
  // Keeps a closed set of the verbs without effect, with copies of their payloads.
  void ChooseSurvivors(Late late);
  void Drop(VerbInFlight& operation);
  void LandNow(VerbInFlight& operation);

  SimNetwork& network_;
  Server& server_;
  SimEndpoint* endpoint_;
  ClientState& client_;
  const uint64_t id_;
  const uint32_t path_mtu_;
  // Verbs that have arrived and not ended, in posted order.
  VerbInFlight* first_operation_ = nullptr;
  VerbInFlight* last_operation_ = nullptr;
  IntrusiveQueue<Transit> in_flight_;
  IntrusiveQueue<Transit> unsent_;
  IntrusiveQueue<CallInFlight> calls_;
  Transit* next_to_answer_ = nullptr;
  uint32_t verbs_in_flight_ = 0;
  bool broken_ = false;
  // The number of events during which the link goes down much more often than usual.
  static constexpr uint32_t kShakyFor = 24;
  uint32_t shaky_for_ = 0;
  Farewell* farewell_ = nullptr;
  bool refused_ = false;  // a verb was posted that the server will refuse
  Nanoseconds last_arrival_ = 0;
  Nanoseconds last_effect_ = 0;
  Nanoseconds last_answer_ = 0;
  Nanoseconds last_call_arrival_ = 0;
  Nanoseconds late_call_arrival_ = 0;  // of the last late one
  Nanoseconds last_reply_ = 0;
};

}  // namespace gossamer::sim
