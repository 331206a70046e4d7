// One simulated compute server: an open store, and sessions whose coroutines run operations in
// sequence.
//
// It lives from `Open` until it dies, loses its connection, or the run ends. Its replacement is
// another client with another number. The recorder gets what it sees, and the verdict what is wrong
// at first sight.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/fabric/sim/sim.h"
#include "compute/store/open_session.h"
#include "compute/store/open_store.h"
#include "compute/verify/sim/membership.h"
#include "compute/verify/sim/plan.h"
#include "compute/verify/sim/recorder.h"
#include "compute/verify/sim/store_time.h"
#include "compute/verify/sim/verdict.h"
#include "compute/verify/sim/workload.h"
#include "gossamer/scan_cursor.h"
#include "proto/store_record.h"

namespace gossamer::simulator {

// State shared by the clients of a run.
struct Scene {
  const Plan& plan;
  SimNetwork& network;
  const StoreRecord& record;
  Membership* membership;  // null: the record is fixed
  Recorder& recorder;
  Workload& workload;
  Verdict& verdict;
  const StoreTime& clock;
  uint64_t given_back_bytes = 0;  // by sweeps of clients
  uint64_t erased = 0;            // keys, by DeleteRange
  uint64_t rests = 0;             // of cursors
  std::set<ServerId> lost = {};   // memory servers that have died where clients repair the tree
  uint64_t replaced_nodes = 0;    // by repairs

  // What a client that opens the store now finds.
  Result<StoreRecord> FindRecord();
};

class SimulatedClient {
 public:
  // `number` is unique in the whole run.
  SimulatedClient(Scene& scene, uint32_t number, const ClientPlan& plan);
  SimulatedClient(const SimulatedClient&) = delete;
  SimulatedClient& operator=(const SimulatedClient&) = delete;
  ~SimulatedClient();

  // Opens the store and its sessions. Blocks: virtual time passes.
  Status Open();
  // Starts the coroutines. They end when the workload ends.
  void Start();
  // Closes one of its sessions, or the store, as soon as operations under way are done.
  void Leave(Random& random);
  // Reopens its closed sessions. Blocks.
  void Renew();
  // Puts each key with the plan's probability. Blocks.
  void Prefill(Random& random);
  // Settles its store's orphaned locks. Blocks: nobody else is driven meanwhile.
  void SettleLocks();
  // Lets each session put some keys. Blocks likewise. Requires (unchecked): no client has orphaned
  // locks.
  void PutByEachSession();
  // Has a coroutine of its own repair what was lost with memory servers, which sets `ended` then.
  void StartRepair(std::optional<Result<RepairReport>>& ended);
  // Its sessions that operations use.
  std::span<const std::unique_ptr<OpenSession>> sessions() const { return sessions_; }
  // Turns of all its sessions at locks.
  size_t CountTurns();
  // Gets each key once, which closes its history. Returns how many keys exist. Blocks.
  uint64_t ReadAll();

  uint32_t number() const { return number_; }
  uint64_t uuid() const { return number_; }
  const ClientPlan& plan() const { return plan_; }
  OpenStore& store() { return *store_; }
  // Whether no operation and no repair of the tree is under way.
  bool is_idle() const;
  // Whether it may be destroyed: nothing is left to run, not even the keeper of its leases.
  bool is_over() const;
  // Whether it merges nodes now.
  bool is_merging() const;
  // Whether it does something beside its operations.
  bool is_working_behind() const;
  bool is_dead() const { return is_dead_; }
  // Its connection or lease is gone, or it closes the store: it begins nothing more, and another
  // client replaces it.
  bool has_left() const { return has_left_; }
  // Whether it lives and stays, and operations are left to begin.
  bool has_work() const;
  // As by SIGKILL.
  void Kill();
  // Sweeps at random times as long as there is work.
  Task<void> SweepNowAndThen();
  Task<void> ExpireNowAndThen();
  // Repairs what was lost with memory servers, likewise.
  Task<void> RepairNowAndThen();
  // The client will do nothing any more: stops renewing its leases.
  void StopKeeping();
  void StopKeepingUnlessSweeping();
  // Of all its sessions.
  Counters counters() const;

 private:
  Result<std::unique_ptr<OpenSession>> NewSession();
  // Blocks.
  void Put(OpenSession& session, uint32_t lane, uint32_t key);
  void StartSession(uint32_t number);
  void RenewSession(uint32_t number);
  Task<void> Loop(uint32_t number, uint32_t lane, bool only_gets);
  // Until the next multiple of the plan's beat.
  Task<void> AwaitBeat(Scheduler& scheduler);
  Task<void> Do(OpenSession& session, uint32_t lane, PlannedOperation operation);
  Task<void> Get(OpenSession& session, uint32_t lane, uint32_t key);
  // Records what a get returned. Returns whether it failed.
  bool EndGet(uint32_t lane, uint32_t key, const Result<std::string_view>& value);
  Task<void> Write(OpenSession& session, uint32_t lane, PlannedOperation operation);
  Task<void> Modify(OpenSession& session, uint32_t lane, PlannedOperation operation);
  // Each key is an operation of its own in the history (client_batch.cc).
  Task<void> DoBatch(OpenSession& session, uint32_t lane, PlannedBatch batch);
  Task<void> GetBatch(OpenSession& session, uint32_t lane, PlannedBatch batch);
  Task<void> WriteBatch(OpenSession& session, uint32_t lane, PlannedBatch batch);
  // The lane of the i-th key of a batch that the coroutine of `lane` runs.
  uint32_t LaneInBatch(uint32_t lane, size_t i);
  // Returns whether the write failed.
  // When what `write`, a put, stores expires. Tells the recorder.
  Expiry BeginLife(const OpenSession& session, uint32_t lane, const PlannedOperation& write);
  bool EndWrite(uint32_t lane, const PlannedOperation& operation, const Status& status);
  // Operations of ranges (client_ranges.cc).
  Task<void> Scan(OpenSession& session, uint32_t lane, PlannedOperation operation);
  // The row that the cursor is at. Absent, and the verdict is told, if it is none.
  std::optional<history::ScanRow> RowAt(const ScanCursor& cursor, bool keys_only);
  // Pauses now and then. The row stays as it is meanwhile.
  Task<void> Rest(Scheduler& scheduler, const ScanCursor& cursor);
  Task<void> Erase(OpenSession& session, uint32_t lane, PlannedOperation operation);
  // The value's name if it is a value of this key. Otherwise absent, and the verdict is told.
  history::ValueId Verify(uint32_t key, std::string_view value);
  friend class RecordedModifier;
  // Judges the error. If the client stays, the coroutine pauses before it goes on.
  Task<void> Failed(OpenSession& session, uint32_t lane, uint32_t key, Error error);
  uint32_t NumberOf(const OpenSession& session) const;
  Task<Result<RepairReport>> Repair();

  // Of a wrong key or value, in a message.
  static constexpr size_t kShownBytes = 24;

  Scene& scene_;
  const uint32_t number_;
  const ClientPlan plan_;
  Random rest_random_;
  bool is_dead_ = false;
  bool has_left_ = false;
  std::unique_ptr<OpenStore> store_;
  std::vector<std::unique_ptr<OpenSession>>
      sessions_;                  // destroyed before the store; null: to be reopened
  std::vector<bool> is_closing_;  // by session
  std::map<uint32_t, std::vector<uint32_t>> batch_lanes_;  // by the coroutine's lane
  Endpoint::Clock::time_point open_again_at_;
  Counters closed_;                        // of closed sessions
  std::unique_ptr<OpenSession> keeper_;    // renews the leases
  std::unique_ptr<OpenSession> upkeep_;    // merges nodes
  std::unique_ptr<OpenSession> sweeps_;    // null: it never sweeps
  std::unique_ptr<OpenSession> expiries_;  // null: it never deletes what has expired
  std::unique_ptr<OpenSession> repairs_;   // null: it never repairs
};

}  // namespace gossamer::simulator
