// A stress run that lasts as long as its faults: clients are killed, memcached forgets, memory servers start anew.
//
// It goes by eras. An era has one store. It ends when memory server 0 starts anew, and the store with it: its clients go
// on for a while with what is left, which may answer rightly or not at all, while the next era's store is already there
// at the same address, full of other values. Then they close the one and open the other. Each era has a history of its
// own. Other memory servers start anew at most once in an era, before server 0.
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

  // Fails where the run cannot go on; what is wrong with the store goes to the findings.
  Status Run(const std::vector<std::string>& client_command);

 private:
  using Clock = std::chrono::steady_clock;

  // Opens and fills the store of an era, and lets clients know of it.
  Result<std::unique_ptr<Store>> BeginStore(uint32_t era);
  // Until the era has had its share of disturbances.
  Status Disturb(Clients& clients);
  Status RestartRoot(Clients& clients);
  Status RestartOther(Clients& clients, uint32_t place);
  // Clients go on with what is left of their store.
  Status Witness(Clients& clients);
  // A memory server of another store where one of this store was; filled.
  Status StartStranger(uint32_t place);
  // Nobody has written to it but this program.
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
