// Losses of a client's connections to memory servers while its process and the servers live, on
// shm. A thread of the client shuts down one of its own sockets at random moments. The memory
// server then destroys the queue pair, as it does after a network failure. Sessions find it broken
// in the middle of an operation, and some close at once.
//
// Another connection to the same memory server stays, because the client's lease would end with the
// last one. If a client has several stores open, the connection that stays may belong to another
// store.
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
  // Starts losing connections, at least one every `longest_ms`, until the object ends. Writes the
  // moments to the file.
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

// Adds the losses of a client. Adds nothing if there is no such file.
void ReadLosses(const std::string& path, uint32_t client, std::vector<Fault>& faults);

}  // namespace gossamer::stress
