// LargeSweeper: gives back the memory of large hashes and sets whose key is gone
// (commands/large_composite.h), in a thread and a session of its own.
//
// Of several compute servers one sweeps at a time: it takes the turn by a key that expires.
//
// Cost: some reads for each large hash of the store every `after`, and the deletes of what has
// gone.
// Thread-safety: one thread starts and destroys it; figures may be read by any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "common/admin/metrics.h"
#include "common/resting_thread.h"
#include "common/status.h"
#include "gossamer/store.h"

namespace gossamer::gateway {

class LargeSweeper {
 public:
  // `store` must outlive it. Requires: `after` is above 0.
  // Errors: those of Store::NewSession; Unsupported if there is no thread.
  static Result<std::unique_ptr<LargeSweeper>> Start(Store& store, std::chrono::milliseconds after);
  // Ends a sweep that goes on, once it is done with one hash.
  ~LargeSweeper() = default;
  LargeSweeper(const LargeSweeper&) = delete;
  LargeSweeper& operator=(const LargeSweeper&) = delete;

  // Items that it has deleted.
  uint64_t items() const { return items_.load(std::memory_order_relaxed); }
  void AddTo(Families& families) const;

 private:
  explicit LargeSweeper(std::chrono::milliseconds after) : after_(after) {}

  void Run();
  Status Sweep();

  const std::chrono::milliseconds after_;
  std::unique_ptr<Session> session_;
  std::atomic<uint64_t> items_{0};
  std::atomic<uint64_t> failures_{0};
  RestingThread thread_;  // uses all of the above
};

}  // namespace gossamer::gateway
