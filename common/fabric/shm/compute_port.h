// The compute server's side of the shm fabric: the connected servers and their memory, mapped once.
//
// Thread-safety: thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "common/fabric/compute_port.h"
#include "common/fabric/shm/handshake.h"
#include "common/fabric/shm/memory.h"
#include "common/fabric/shm/queue_pair.h"
#include "common/fabric/shm/socket.h"

namespace gossamer::shm {

// A queue pair as its server granted it.
struct QueuePairGrant {
  UniqueFd socket;
  MemoryMapping page_mapping;
  QueuePairPage* page = nullptr;  // in it
  std::shared_ptr<SharedMemory> memory;
  uint64_t incarnation = 0;
  uint64_t queue_pair = 0;
  bool in_process = false;
};

class ShmComputePort final : public ComputePort {
 public:
  explicit ShmComputePort(const ComputePortOptions& options) : options_(options) {}

  void RequirePathMtu(uint32_t bytes) override { options_.least_path_mtu = bytes; }
  Status Connect(ServerId server, const std::string& address, uint64_t incarnation) override;
  Result<std::unique_ptr<Endpoint>> NewEndpoint() override;

  // Requests a queue pair. The server first destroys the two given ones, if not 0. Errors:
  // InvalidArgument for a server that the port is not connected to.
  Result<Handshake> StartHandshake(ServerId server, uint64_t old_queue_pair,
                                   uint64_t other_queue_pair);
  // The result of a handshake that the server has accepted.
  Result<QueuePairGrant> Accept(ServerId server, Handshake& handshake);
  uint32_t connection_timeout_ms() const { return options_.connection_timeout_ms; }

 private:
  struct Server {
    std::string address;
    uint64_t incarnation = 0;
    std::weak_ptr<SharedMemory> memory;
  };

  // Maps the page at `page_at` of the file.
  static Status MapPage(const UniqueFd& file, uint64_t page_at, QueuePairGrant& grant);
  // The memory behind `welcome`, shared with other endpoints that have mapped it.
  Result<std::shared_ptr<SharedMemory>> FindOrMap(ServerId server, const Welcome& welcome,
                                                  const std::vector<UniqueFd>& fds);

  ComputePortOptions options_;
  std::mutex mutex_;
  std::map<ServerId, Server> servers_;
};

Result<std::unique_ptr<ComputePort>> OpenComputePort(const ComputePortOptions& options);

}  // namespace gossamer::shm
