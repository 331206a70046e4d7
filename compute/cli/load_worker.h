// A worker of `load`: one thread, one session, a batch of lines at a time.
//
// Thread-safety: the reading thread calls `Push`, `Drain`, `Close` and `loaded`. `report` is valid
// after `Join`.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "common/program/stop.h"
#include "compute/cli/load.h"
#include "compute/cli/load_line.h"
#include "gossamer/store.h"

namespace gossamer::cli {

// State shared by all workers. Once `halted`, no worker starts another batch.
struct LoadShared {
  const Stop& stop;
  std::atomic<bool> halted = false;

  bool Halted() const { return stop.raised() || halted.load(std::memory_order_relaxed); }
};

class LoadWorker {
 public:
  static constexpr uint64_t kNoLine = std::numeric_limits<uint64_t>::max();

  struct Report {
    uint64_t inserted = 0;
    uint64_t overwritten = 0;
    uint64_t first_not_loaded = kNoLine;  // the lowest line that it received and did not store
    std::optional<LoadError> error;       // the error with the lowest line
  };

  LoadWorker(std::unique_ptr<Session> session, const LoadOptions& options, LoadShared& shared);
  ~LoadWorker();
  LoadWorker(const LoadWorker&) = delete;
  LoadWorker& operator=(const LoadWorker&) = delete;

  // Waits while the worker's queue is full.
  void Push(std::unique_ptr<LoadBatch> batch);
  // Waits until all batches are done.
  void Drain();
  // No more batches follow.
  void Close();
  void Join();

  uint64_t loaded() const { return loaded_.load(std::memory_order_relaxed); }
  const Report& report() const { return report_; }

 private:
  void Run();
  // The next batch; null after the last. The one before is done.
  std::unique_ptr<const LoadBatch> Pop();
  void PutAll(const LoadBatch& batch);
  // The same of a sorted batch. Behind a line that failed, none is stored.
  void LoadAll(const LoadBatch& batch);
  void Failed(uint64_t line, const Error& error);
  void NotLoaded(uint64_t line);
  void AddLoaded(uint64_t lines);

  std::unique_ptr<Session> session_;
  const double fill_;  // of leaves that are built from sorted batches
  LoadShared& shared_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<const LoadBatch>> queue_;
  bool is_busy_ = false;  // with a batch that is not in the queue any more
  bool closed_ = false;

  std::atomic<uint64_t> loaded_ = 0;
  std::vector<KeyValueView> pairs_;  // of a batch
  std::vector<Status> results_;      // likewise
  Report report_;
  std::thread thread_;
};

}  // namespace gossamer::cli
