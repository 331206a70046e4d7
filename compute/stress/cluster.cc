#include "compute/stress/cluster.h"

#include <csignal>

namespace gossamer::stress {

std::vector<std::string> BoundToParent(std::vector<std::string> arguments) {
  const std::vector<std::string> bound = {"setpriv", "--pdeathsig", "KILL", "--"};
  arguments.insert(arguments.begin(), bound.begin(), bound.end());
  return arguments;
}

Result<std::unique_ptr<Cluster>> Cluster::Start(const StressOptions& options,
                                                const std::string& directory) {
  auto cluster = std::make_unique<Cluster>();
  cluster->bootstrap_ = options.bootstrap;
  if (options.bootstrap == "dir") cluster->bootstrap_ = "dir:" + directory + "/bootstrap";
  if (options.bootstrap == "memcached") {
    cluster->memcached_ = std::make_unique<testing::MemcachedProcess>();
    if (!cluster->memcached_->running()) {
      return MakeError(Code::kUnsupported, "no memcached could be started (package memcached)");
    }
    cluster->bootstrap_ = cluster->memcached_->url();
  }
  for (uint32_t number = 0; number < options.servers; ++number) {
    BOOST_OUTCOME_TRYV(cluster->StartServer(options, number));
  }
  return cluster;
}

Status Cluster::StartServer(const StressOptions& options, uint32_t number) {
  const StoreParameters& parameters = options.parameters;
  std::vector<std::string> arguments = {
      options.memory_program,
      "--memory=" + options.memory,
      "--fabric=" + options.fabric,
      "--bootstrap=" + bootstrap_,
      "--node_bytes=" + std::to_string(parameters.node_bytes),
      "--max_key_bytes=" + std::to_string(parameters.max_key_bytes),
      "--inline_value_bytes=" + std::to_string(parameters.inline_value_bytes),
  };
  if (!options.chunk_bytes.empty()) arguments.push_back("--chunk_bytes=" + options.chunk_bytes);
  if (!options.lease_ms.empty()) arguments.push_back("--lease_ms=" + options.lease_ms);
  if (!options.listen.empty()) {
    arguments.push_back("--listen=" + options.listen + ":" + std::to_string(options.port + number));
  }
  if (!options.device.empty()) arguments.push_back("--device=" + options.device);
  servers_.push_back(std::make_unique<testing::ChildProcess>(BoundToParent(std::move(arguments))));
  if (servers_.back()->WaitForOutput("ready")) return Ok();
  return MakeError(Code::kUnsupported, "memory server " + std::to_string(number) +
                                           " does not start: " + servers_.back()->standard_error());
}

Status Cluster::Stop() {
  Status status = Ok();
  while (!servers_.empty()) {
    servers_.back()->Signal(SIGTERM);
    const int ended = servers_.back()->Wait();
    if (ended != 0 && status) {
      status = MakeError(Code::kNodeUnreachable, "a memory server ended with status " +
                                                     std::to_string(ended) + ": " +
                                                     servers_.back()->standard_error());
    }
    servers_.pop_back();
  }
  return status;
}

}  // namespace gossamer::stress
