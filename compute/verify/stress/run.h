// A whole stress run: a store, its clients, and the judgement of what they saw.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "compute/verify/stress/options.h"
#include "compute/verify/stress/worker.h"
#include "gossamer/store.h"

namespace gossamer::stress {

// Starts the cluster and the clients, waits, checks and prints. `client_command` is the program
// with its flags; flags for each client are added. Returns true if nothing was wrong.
bool RunCluster(const StressOptions& options, const std::vector<std::string>& client_command);

// The same in this process: a local store and the clients' threads.
bool RunLocal(const StressOptions& options);

}  // namespace gossamer::stress
