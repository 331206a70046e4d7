#include "compute/verify/stress/cluster.h"

#include <fmt/core.h>

#include <csignal>
#include <filesystem>
#include <system_error>
#include <thread>

#include "common/program/fabric_flags.h"

namespace gossamer::stress {

std::vector<std::string> BoundToParent(std::vector<std::string> arguments) {
  const std::vector<std::string> bound = {"setpriv", "--pdeathsig", "KILL", "--"};
  arguments.insert(arguments.begin(), bound.begin(), bound.end());
  return arguments;
}

Result<std::unique_ptr<Cluster>> Cluster::Start(const StressOptions& options,
                                                const std::string& directory) {
  std::unique_ptr<Cluster> cluster(new Cluster(options, directory));
  cluster->bootstrap_ = options.bootstrap;
  if (options.bootstrap == "dir") cluster->bootstrap_ = "dir:" + directory + "/bootstrap";
  if (options.bootstrap == "memcached") {
    cluster->memcached_ = std::make_unique<MemcachedProcess>();
    if (!cluster->memcached_->running()) {
      return MakeError(Code::kUnsupported, "no memcached could be started (package memcached)");
    }
    cluster->bootstrap_ = cluster->memcached_->url();
  }
  for (uint32_t place = 0; place < options.servers; ++place) {
    BOOST_OUTCOME_TRYV(cluster->StartServer(place));
  }
  return cluster;
}

Cluster::~Cluster() {
  servers_.clear();
  for (uint32_t place = 0; place <= guest_place(); ++place) {
    std::error_code ignored;
    if (options_.returns != 0) std::filesystem::remove(RegionOf(place), ignored);
  }
}

std::string Cluster::RegionOf(uint32_t place) const {
  if (options_.returns == 0) return {};
  const std::string run = std::filesystem::path(directory_).filename().string();
  return fmt::format("{}/{}-{}.region", options_.region_directory, run, place);
}

Status Cluster::StartServer(uint32_t place, const std::string& store) {
  const StoreParameters& parameters = options_.parameters;
  std::vector<std::string> arguments = {
      options_.memory_program,
      "--memory=" + options_.memory,
      "--fabric=" + options_.fabric,
      "--bootstrap=" + bootstrap_,
      "--store=" + store,
      fmt::format("--node_bytes={}", parameters.node_bytes),
      fmt::format("--max_key_bytes={}", parameters.max_key_bytes),
      fmt::format("--inline_value_bytes={}", parameters.inline_value_bytes),
  };
  if (options_.returns != 0) arguments.push_back("--region=" + RegionOf(place));
  if (!options_.chunk_bytes.empty()) arguments.push_back("--chunk_bytes=" + options_.chunk_bytes);
  if (!options_.lease_ms.empty()) arguments.push_back("--lease_ms=" + options_.lease_ms);
  if (!options_.listen.empty()) {
    arguments.push_back(fmt::format("--listen={}:{}", options_.listen, options_.port + place));
  } else if (options_.fabric == "shm") {
    arguments.push_back(fmt::format("--listen={}/memory-{}.sock", directory_, place));
  }
  arguments.push_back(fmt::format("--connection_timeout_ms={}", options_.connection_timeout_ms));
  for (std::string& flag : FlagsFor(options_.rdma)) arguments.push_back(std::move(flag));
  auto server = std::make_unique<ChildProcess>(BoundToParent(std::move(arguments)));
  if (server->WaitForOutput("ready")) {
    servers_[place] = std::move(server);
    return Ok();
  }
  return MakeError(Code::kInvalidArgument, fmt::format("memory server {} does not start: {}", place,
                                                       server->standard_error()));
}

Status Cluster::End(uint32_t place, int signal) {
  const std::unique_ptr<ChildProcess> server = std::move(servers_[place]);
  if (server == nullptr) return Ok();
  server->Signal(signal);
  const int ended = server->Wait();
  if (ended == (signal == SIGKILL ? -SIGKILL : 0)) return Ok();
  return MakeError(Code::kNodeUnreachable, fmt::format("a memory server ended with status {}: {}",
                                                       ended, server->standard_error()));
}

void Cluster::Signal(uint32_t place, int signal) const {
  if (servers_[place] != nullptr) servers_[place]->Signal(signal);
}

bool Cluster::RestartMemcached(std::chrono::milliseconds absence) {
  memcached_->Kill();
  std::this_thread::sleep_for(absence);
  memcached_->Restart();
  return memcached_->running();
}

Status Cluster::Stop() {
  Status status = Ok();
  for (uint32_t place = guest_place() + 1; place-- > 0;) {
    Status ended = End(place, SIGTERM);
    if (!ended && status) status = std::move(ended);
  }
  return status;
}

}  // namespace gossamer::stress
