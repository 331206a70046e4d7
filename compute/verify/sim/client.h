// One simulated compute server: a store that it has open, and sessions whose coroutines do one operation after another.
//
// It lives from `Open` to its death, its loss of the connection, or the end of the run; a client that comes again is
// another one, with another number. Whatever it sees goes to the recorder; what is wrong at first sight, to the
// verdict.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/fabric/sim/sim.h"
#include "compute/store/open_session.h"
#include "compute/store/open_store.h"
#include "compute/verify/sim/membership.h"
#include "compute/verify/sim/plan.h"
#include "compute/verify/sim/recorder.h"
#include "compute/verify/sim/verdict.h"
#include "compute/verify/sim/workload.h"
#include "proto/store_record.h"

namespace gossamer::simulator {

// What the clients of a run share.
struct Scene {
  const Plan& plan;
  SimNetwork& network;
  const StoreRecord& record;
  Membership* membership;  // none: the record is fixed
  Recorder& recorder;
  Workload& workload;
  Verdict& verdict;
};

class Client {
 public:
  // `number` is its own in the whole run.
  Client(Scene& scene, uint32_t number, const ClientPlan& plan);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  // Opens the store and its sessions. Blocks: time passes.
  Status Open();
  // Starts its coroutines; they end when the workload does.
  void Start();
  // One of its sessions, or the store, ends as soon as what it has begun is done.
  void Leave(Random& random);
  // Opens those of its sessions anew that have ended. Blocks.
  void Renew();
  // Puts each key with the plan's chance. Blocks.
  void Prefill(Random& random);
  // Each session puts some keys. Blocks.
  void PutByEachSession();
  // Of all sessions, at locks.
  size_t CountTurns();
  // Gets each key once, which closes its history; returns how many are there. Blocks.
  uint64_t ReadAll();

  uint32_t number() const { return number_; }
  uint64_t uuid() const { return number_; }
  const ClientPlan& plan() const { return plan_; }
  OpenStore& store() { return *store_; }
  // None of its operations is under way, nor a repair of the tree.
  bool is_idle() const;
  // Nothing of it is left to run, its leases' keeper included: it may be destroyed.
  bool is_over() const;
  bool is_dead() const { return is_dead_; }
  // Its connection or its lease is gone, or it closes the store: it does nothing any more, and has to be opened again.
  bool is_lost() const { return is_lost_; }
  // SIGKILL, as it were.
  void Kill();
  // It will do nothing any more: its leases are not renewed.
  void StopKeeping();
  // Of all its sessions.
  Counters counters() const;

 private:
  Result<std::unique_ptr<OpenSession>> NewSession();
  // Blocks.
  void Put(OpenSession& session, uint32_t lane, uint32_t key);
  void StartSession(uint32_t number);
  void RenewSession(uint32_t number);
  Task<void> Loop(uint32_t number, uint32_t lane, bool only_gets);
  Task<void> Do(OpenSession& session, uint32_t lane, Operation operation);
  Task<void> Get(OpenSession& session, uint32_t lane, uint32_t key);
  Task<void> Write(OpenSession& session, uint32_t lane, Operation operation);
  Task<void> Scan(OpenSession& session, uint32_t lane, Operation operation);
  // The value's name, once it is found to be one of this key; else absent, and that is told.
  history::ValueId Verify(uint32_t key, std::string_view value);
  // Judges it; if the client stays, the coroutine rests for a while before it goes on.
  Task<void> Failed(OpenSession& session, uint32_t lane, uint32_t key, Error error);
  uint32_t NumberOf(const OpenSession& session) const;

  Scene& scene_;
  const uint32_t number_;
  const ClientPlan plan_;
  Random rest_random_;
  bool is_dead_ = false;
  bool is_lost_ = false;
  std::unique_ptr<OpenStore> store_;
  std::vector<std::unique_ptr<OpenSession>>
      sessions_;                  // end before the store; null: to be opened anew
  std::vector<bool> is_closing_;  // by session
  Endpoint::Clock::time_point open_again_at_;
  Counters closed_;                      // of sessions that have ended
  std::unique_ptr<OpenSession> keeper_;  // renews the leases
};

}  // namespace gossamer::simulator
