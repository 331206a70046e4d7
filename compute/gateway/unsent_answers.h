// UnsentAnswers: bytes of answers that the clients of a process have not taken, in all its workers.
//
// Thread-safety: any thread; each client is counted by its worker's. Cost: an atomic addition where the bytes of a client have
// changed. Clients that take their answers at once change nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "compute/gateway/client.h"

namespace gossamer::gateway {

class UnsentAnswers {
 public:
  // With more than `most` bytes, memory is short.
  explicit UnsentAnswers(uint64_t most) : most_(static_cast<int64_t>(most)) {}

  // `client` has so many now.
  void Count(Client& client, size_t bytes) {
    if (client.counted_unsent == bytes) return;
    bytes_.fetch_add(static_cast<int64_t>(bytes) - static_cast<int64_t>(client.counted_unsent),
                     std::memory_order_relaxed);
    client.counted_unsent = bytes;
  }
  bool are_many() const { return bytes_.load(std::memory_order_relaxed) > most_; }
  // Twice as many.
  bool are_too_many() const { return bytes_.load(std::memory_order_relaxed) > 2 * most_; }

 private:
  const int64_t most_;
  std::atomic<int64_t> bytes_{0};
};

}  // namespace gossamer::gateway
