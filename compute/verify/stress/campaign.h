// A stress run whose length is that of its faults: clients are killed, memcached forgets, memory
// servers restart.
//
// It proceeds in eras. An era has one store and one history. It ends when memory server 0 restarts,
// which ends the store. Clients then go on for a while with the rest of their store, which may
// answer correctly or not at all. The next era's store already exists at the same address, with
// other values. Then the clients close the old store and open the new one. Each other memory server
// restarts at most once in an era, before server 0.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/random.h"
#include "compute/verify/stress/client.h"
#include "compute/verify/stress/clients.h"
#include "compute/verify/stress/cluster.h"
#include "compute/verify/stress/disturbances.h"
#include "compute/verify/stress/failed_call.h"
#include "compute/verify/stress/faults.h"
#include "compute/verify/stress/findings.h"
#include "gossamer/store.h"

namespace gossamer::stress {

class Campaign {
 public:
  Campaign(const StressOptions& options, const std::string& directory, Cluster& cluster,
           RunBoard& board, FailureLog failures, Findings& findings);

  // Errors: what prevents the run from going on. Faults of the store are reported as findings.
  Status Run(const std::vector<std::string>& client_command);

 private:
  using Clock = std::chrono::steady_clock;

  // Opens and fills the store of an era, and announces it to clients.
  Result<std::unique_ptr<Store>> BeginStore(uint32_t era);
  // Runs until the era has had its share of disturbances.
  Status Disturb(Clients& clients);
  Status RestartRoot(Clients& clients);
  Status RestartOther(Clients& clients, uint32_t place);
  // Lets clients go on with the rest of their store.
  Status Witness(Clients& clients);
  // Starts and fills a memory server of another store in the place of one of this store.
  Status StartStranger(uint32_t place);
  // Checks that only this program has written to the store.
  void CheckUntouched(Store& store, const std::string& name);
  Status AwaitEra(Clients& clients);
  int SomeEnd();
  bool is_late() const;

  const StressOptions& options_;
  const std::string directory_;
  Cluster& cluster_;
  RunBoard& board_;
  Findings& findings_;
  const Clock::time_point began_ = Clock::now();
  Random random_;
  OpenOptions open_;
  std::unique_ptr<Store> store_;     // of this era
  std::unique_ptr<Store> stranger_;  // of this era
  std::vector<Fault> faults_;
  Disturbances disturbances_;
  uint32_t era_ = 0;
  uint32_t restarts_ = 0;
};

}  // namespace gossamer::stress
