// Connections to memory servers that a client loses while its process and the servers live, on shm: a thread of the client
// shuts down one of its own sockets at random moments. The memory server destroys the queue pair, as it does when a network
// fails; sessions find it broken in the middle of what they do, and some close at once.
//
// Another connection to the same memory server is left: with the last one, the client's lease would end. Where a client
// has several stores open, that may be a connection of another of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/status.h"
#include "compute/verify/stress/faults.h"

namespace gossamer::stress {

class ConnectionLosses {
 public:
  // Until the end of this object one is lost at least every `longest_ms`. The moments are written to the file.
  static Result<std::unique_ptr<ConnectionLosses>> Start(uint32_t longest_ms, uint64_t seed,
                                                         const std::string& path);
  ~ConnectionLosses();

 private:
  explicit ConnectionLosses(int file) : file_(file) {}
  void Run(uint32_t longest_ms, uint64_t seed);

  const int file_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// Adds those of a client. None if there is no such file.
void ReadLosses(const std::string& path, uint32_t client, std::vector<Fault>& faults);

}  // namespace gossamer::stress
