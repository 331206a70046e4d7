// AutoSweeper: gives back the memory of compute servers that ended without doing so, now and then,
// in a thread of its own.
//
// Every `after` it asks the memory servers whether a sweep is needed. If it was needed the last
// time, too, it sweeps, unless another compute server does: so memory comes back between one
// `after` and two, and of many compute servers one sweeps.
//
// Cost: a message to each memory server every `after`. A sweep reads the tree node by node; it
// works for at most a share of 1/kShare of the time, so that the workers keep the processors.
// Thread-safety: one thread starts and destroys it; figures may be read by any.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "common/admin/metrics.h"
#include "common/resting_thread.h"
#include "common/status.h"
#include "gossamer/store.h"

namespace gossamer::gateway {

class AutoSweeper {
 public:
  static constexpr int kShare = 4;

  struct Figures {
    uint64_t sweeps = 0;       // that ended well
    uint64_t failures = 0;     // sweeps and questions that did not
    uint64_t swept_bytes = 0;  // given back
    bool is_sweeping = false;
    uint64_t nodes = 0;  // of the tree, read by the sweep that goes on
  };

  // `store` must outlive it. Requires: `after` is above 0. Errors: Unsupported if there is no
  // thread.
  static Result<std::unique_ptr<AutoSweeper>> Start(Store& store, std::chrono::milliseconds after);
  // Ends a sweep that goes on, within some milliseconds if no memory server is silent.
  ~AutoSweeper() = default;
  AutoSweeper(const AutoSweeper&) = delete;
  AutoSweeper& operator=(const AutoSweeper&) = delete;

  Figures figures() const;
  void AddTo(Families& families) const;
  // The field sweeps of /state (docs/metrics.md).
  nlohmann::ordered_json State() const;

 private:
  AutoSweeper(Store& store, std::chrono::milliseconds after) : store_(store), after_(after) {}

  void Run();
  void Sweep();
  void NoteFailure(const Error& error);

  Store& store_;
  const std::chrono::milliseconds after_;
  std::string last_failure_;  // the sweeper's thread
  mutable std::mutex mutex_;
  Figures figures_;       // guarded by mutex_
  RestingThread thread_;  // uses all of the above
};

}  // namespace gossamer::gateway
