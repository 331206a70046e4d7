#include "compute/verify/stress/connection_losses.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>

#include "common/random.h"
#include "compute/verify/stress/now.h"

namespace gossamer::stress {
namespace {

constexpr int64_t kUntilReplacedNs = 4'000'000'000;

// Sockets of this process, by the path of the memory server at their other end. Sockets that have
// ended are left out.
std::map<std::string, std::vector<int>> FindConnections() {
  std::map<std::string, std::vector<int>> connections;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    sockaddr_un peer{};
    socklen_t bytes = sizeof peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) continue;
    if (peer.sun_family != AF_UNIX || bytes <= sizeof(sa_family_t)) continue;
    pollfd event{fd, 0, 0};
    const bool has_ended = poll(&event, 1, 0) == 1 && (event.revents & (POLLHUP | POLLERR)) != 0;
    const std::string path(peer.sun_path);
    if (!has_ended && path.find("/memory-") != std::string::npos) connections[path].push_back(fd);
  }
  return connections;
}

}  // namespace

Result<std::unique_ptr<ConnectionLosses>> ConnectionLosses::Start(uint32_t longest_ms,
                                                                  uint64_t seed,
                                                                  const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return MakeError(Code::kInvalidArgument, "cannot write " + path);
  std::unique_ptr<ConnectionLosses> losses(new ConnectionLosses(file));
  losses->thread_ =
      std::thread([longest_ms, seed, raw = losses.get()] { raw->Run(longest_ms, seed); });
  return losses;
}

ConnectionLosses::~ConnectionLosses() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  close(file_);
}

void ConnectionLosses::Run(uint32_t longest_ms, uint64_t seed) {
  Random random(seed, ~uint64_t{3});
  while (!stop_) {
    std::this_thread::sleep_for(
        std::chrono::microseconds(random.Below(uint64_t{longest_ms} * 1000)));
    for (const auto& [path, sockets] : FindConnections()) {
      if (sockets.size() < 2 || random.Below(2) == 0) continue;
      const int64_t now = NowNs();
      if (write(file_, &now, sizeof now) != sizeof now) return;
      shutdown(sockets[random.Below(sockets.size())], SHUT_RDWR);
      break;
    }
  }
}

void ReadLosses(const std::string& path, uint32_t client, std::vector<Fault>& faults) {
  std::ifstream file(path, std::ios::binary);
  int64_t at = 0;
  while (file.read(reinterpret_cast<char*>(&at), sizeof at)) {
    Fault fault;
    fault.kind = FaultKind::kLoss;
    fault.client = client;
    fault.from = at;
    fault.until = at + kUntilReplacedNs;
    faults.push_back(fault);
  }
}

}  // namespace gossamer::stress
