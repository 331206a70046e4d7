// The memory servers of a stress run: gossamer-memory processes that find each other in a directory or through a
// memcached of their own. All of them end with this object, and also when this process is killed.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/testing/child_process.h"
#include "common/testing/memcached_process.h"
#include "compute/verify/stress/options.h"

namespace gossamer::stress {

class Cluster {
 public:
  // Returns once all servers are ready. `directory` is the run's own.
  static Result<std::unique_ptr<Cluster>> Start(const StressOptions& options,
                                                const std::string& directory);

  // Where clients find the store.
  const std::string& bootstrap() const { return bootstrap_; }

  // Memory servers by their place, which has the same address whichever process is there.
  // Ends one, and returns when it has. Fails if it does not end as that signal should end it.
  Status End(uint32_t place, int signal);
  // Starts one where none is, as a server of the store of that name, and returns once it is ready. Where it refuses to
  // start: InvalidArgument, with what it says.
  Status StartServer(uint32_t place, const std::string& store = "default");
  // The place of one more server than the run has.
  uint32_t guest_place() const { return options_.servers; }
  void Signal(uint32_t place, int signal) const;
  // Requires: a memcached of the cluster's own. False if it does not answer.
  bool Flush() const { return memcached_->FlushAll(); }
  // It is gone for so long, and forgets.
  bool RestartMemcached(std::chrono::milliseconds absence);
  // Ends all, the first one last. Fails if one does not end well.
  Status Stop();

 private:
  Cluster(const StressOptions& options, const std::string& directory)
      : options_(options), directory_(directory), servers_(options.servers + 1) {}

  const StressOptions& options_;
  const std::string directory_;
  std::string bootstrap_;
  std::unique_ptr<testing::MemcachedProcess> memcached_;
  std::vector<std::unique_ptr<testing::ChildProcess>> servers_;
};

// The program, such that it is killed when this thread ends.
std::vector<std::string> BoundToParent(std::vector<std::string> arguments);

}  // namespace gossamer::stress
