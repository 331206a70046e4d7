// The memory servers of a stress run: gossamer-memory processes that find each other in a directory or through a
// memcached of their own. All of them end with this object, and also when this process is killed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/testing/child_process.h"
#include "common/testing/memcached_process.h"
#include "compute/stress/options.h"

namespace gossamer::stress {

class Cluster {
 public:
  // Returns once all servers are ready. `directory` is the run's own.
  static Result<std::unique_ptr<Cluster>> Start(const StressOptions& options,
                                                const std::string& directory);

  // Where clients find the store.
  const std::string& bootstrap() const { return bootstrap_; }
  // Ends the servers, the first one last. Fails if one does not end well.
  Status Stop();

 private:
  Status StartServer(const StressOptions& options, uint32_t number);

  std::string bootstrap_;
  std::unique_ptr<testing::MemcachedProcess> memcached_;
  std::vector<std::unique_ptr<testing::ChildProcess>> servers_;
};

// The program, such that it is killed when this thread ends.
std::vector<std::string> BoundToParent(std::vector<std::string> arguments);

}  // namespace gossamer::stress
