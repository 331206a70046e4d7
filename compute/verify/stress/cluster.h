// The memory servers of a stress run: gossamer-memory processes that find each other in a directory
// or through their own memcached. They end with this object, and also when this process is killed.
#pragma once

#include <cassert>
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
  ~Cluster();

  // Returns once all servers are ready. `directory` belongs to the run.
  static Result<std::unique_ptr<Cluster>> Start(const StressOptions& options,
                                                const std::string& directory);

  // The bootstrap where clients find the store.
  const std::string& bootstrap() const { return bootstrap_; }

  // Memory servers are identified by place. A place keeps its address for successive processes.
  //
  // Ends a server, and returns when it has ended. Fails if it does not end as that signal should
  // end it.
  Status End(uint32_t place, int signal);
  // Starts a server of store `store` in an empty place. Returns once it is ready.
  // Errors: InvalidArgument, with the server's message, if it refuses to start.
  Status StartServer(uint32_t place, const std::string& store = "default");
  // The place for one server more than the run has.
  uint32_t guest_place() const { return options_.servers; }
  void Signal(uint32_t place, int signal) const;
  // Returns false if memcached does not answer.
  // Requires: the cluster has its own memcached.
  bool Flush() const {
    assert(memcached_);
    return memcached_->FlushAll();
  }
  // Ends memcached, and starts it again, empty, after `absence`.
  bool RestartMemcached(std::chrono::milliseconds absence);
  // Ends all servers, the first one last. Fails if one does not end well.
  Status Stop();

 private:
  Cluster(const StressOptions& options, const std::string& directory)
      : options_(options), directory_(directory), servers_(options.servers + 1) {}

  // The file with the memory of the server in that place; empty: its memory dies with it.
  std::string RegionOf(uint32_t place) const;

  const StressOptions& options_;
  const std::string directory_;
  std::string bootstrap_;
  std::unique_ptr<MemcachedProcess> memcached_;
  std::vector<std::unique_ptr<ChildProcess>> servers_;
};

// The program with its arguments, arranged to be killed when this thread ends.
std::vector<std::string> BoundToParent(std::vector<std::string> arguments);

}  // namespace gossamer::stress
