// A worker of `load`: one thread, one session, many puts in flight.
//
// Thread-safety: the reading thread calls `Push`, `Close` and `loaded`. `report` is valid after
// `Join`.
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

// State shared by all workers. Once `halted`, no worker starts another put.
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
  // No more batches follow.
  void Close();
  void Join();

  uint64_t loaded() const { return loaded_.load(std::memory_order_relaxed); }
  const Report& report() const { return report_; }

 private:
  using BatchPtr = std::shared_ptr<const LoadBatch>;

  void Run();
  // The next batch; null after the last.
  BatchPtr Pop();
  bool QueueEmpty();
  void PutAll(const BatchPtr& batch);
  // Of a sorted load.
  void LoadAll(const LoadBatch& batch);
  // The line and all behind it are not stored.
  void Failed(uint64_t line, const Error& error);
  Task<void> PutLine(BatchPtr batch, const LoadBatch::Line& line);
  bool InFlight(uint64_t key_hash) const;
  void Leave(uint64_t key_hash);
  void NotLoaded(uint64_t line);

  std::unique_ptr<Session> session_;
  const uint32_t in_flight_;
  const std::optional<double> sorted_fill_;
  LoadShared& shared_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<BatchPtr> queue_;
  bool closed_ = false;

  std::atomic<uint64_t> loaded_ = 0;
  std::vector<KeyValueView> pairs_;       // of a sorted load
  std::vector<uint64_t> keys_in_flight_;  // hashes, at most in_flight_; searched linearly
  Report report_;
  std::thread thread_;
};

}  // namespace gossamer::cli
