#include "compute/bench/runner.h"

#include <algorithm>
#include <condition_variable>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "common/text/progress.h"
#include "compute/bench/client.h"

namespace gossamer::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kWatchInterval{50};
constexpr uint32_t kThreadBits = 16;  // of a thread's number; those above are its process's

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

class Phase {
 public:
  // `load_ids`: of PhaseState.
  Phase(Store& store, const RunnerOptions& options, RecordIds& ids, bool loading,
        std::span<const uint64_t> load_ids = {})
      : store_(store),
        options_(options),
        state_{options, ids, loading, load_ids, std::latch(options.threads)},
        first_(options.share.First(loading ? options.records : options.operations)),
        total_(options.share.Past(loading ? options.records : options.operations) - first_),
        threads_(options.threads) {}

  Result<PhaseResult> Execute() {
    uint64_t first = first_;
    for (uint32_t i = 0; i < threads_.size(); ++i) {
      const uint64_t past = first_ + total_ * (i + 1) / threads_.size();
      ClientThread& one = threads_[i];
      one.number = options_.share.rank << kThreadBits | i;
      one.first = first;
      one.count = past - first;
      one.thread = std::thread([this, &one] {
        RunClient(store_, state_, one);
        const std::lock_guard lock(mutex_);
        ++finished_threads_;
        finished_.notify_one();
      });
      first = past;
    }
    state_.ready.wait();
    std::optional<Error> error;
    for (const ClientThread& one : threads_) {
      if (one.error) error = one.error;
    }
    if (error) state_.stop.store(true);
    const Clock::time_point start = Clock::now();
    state_.go.count_down();
    const bool interrupted = Watch(start);
    for (ClientThread& one : threads_) one.thread.join();
    if (error) return *error;
    return Collect(start, interrupted);
  }

 private:
  ProgressPoint At(double seconds) const {
    ProgressPoint point{.seconds = seconds};
    for (const ClientThread& one : threads_) {
      point.operations += one.finished.load(std::memory_order_relaxed);
      point.failures += one.failed.load(std::memory_order_relaxed);
    }
    return point;
  }

  // Shows progress until all threads have finished. Returns whether a stop was requested.
  bool Watch(Clock::time_point start) {
    Progress progress({.verb = state_.loading ? "loading" : "running",
                       .unit = state_.loading ? "records" : "operations",
                       .total = total_});
    bool interrupted = false;
    const std::chrono::milliseconds interval =
        options_.progress_ms == 0 ? kWatchInterval
                                  : std::chrono::milliseconds(options_.progress_ms);
    std::unique_lock lock(mutex_);
    while (!finished_.wait_for(lock, interval,
                               [this] { return finished_threads_ == threads_.size(); })) {
      if (options_.should_stop && !interrupted && options_.should_stop()) {
        interrupted = true;
        state_.stop.store(true);
      }
      const ProgressPoint point = At(Seconds(Clock::now() - start));
      progress.Update(point.operations);
      if (options_.progress_ms != 0) points_.push_back(point);
    }
    return interrupted;
  }

  // The points, and the end of the last operation as the last one.
  void EndProgress(PhaseResult& total) {
    while (!points_.empty() && points_.back().seconds >= total.seconds) points_.pop_back();
    points_.push_back(At(total.seconds));
    total.progress = std::move(points_);
  }

  PhaseResult Collect(Clock::time_point start, bool interrupted) {
    PhaseResult total;
    Clock::time_point end = start;
    for (const ClientThread& one : threads_) {
      total.Merge(one.result);
      end = std::max(end, one.end);
    }
    total.counters.cache.bytes = threads_.front().result.counters.cache.bytes;
    total.seconds = Seconds(end - start);
    if (options_.progress_ms != 0) EndProgress(total);
    total.gave_up = state_.gave_up.load();
    total.interrupted = interrupted && total.operations + total.errors.total() < total_;
    return total;
  }

  Store& store_;
  const RunnerOptions& options_;
  PhaseState state_;
  const uint64_t first_;  // operation of those of all processes
  const uint64_t total_;  // operations of this one
  std::vector<ClientThread> threads_;
  std::vector<ProgressPoint> points_;
  std::mutex mutex_;
  std::condition_variable finished_;
  size_t finished_threads_ = 0;  // guarded by mutex_
};

}  // namespace

void ErrorCounts::Add(const Error& error) {
  const auto code = static_cast<size_t>(error.code);
  if (++counts[code] == 1) messages[code] = error.message;
}

void ErrorCounts::Merge(const ErrorCounts& other) {
  for (size_t code = 0; code < kCodes; ++code) {
    counts[code] += other.counts[code];
    if (messages[code].empty()) messages[code] = other.messages[code];
  }
}

uint64_t ErrorCounts::total() const {
  uint64_t sum = 0;
  for (const uint64_t count : counts) sum += count;
  return sum;
}

void PhaseResult::Merge(const PhaseResult& other) {
  operations += other.operations;
  scanned_keys += other.scanned_keys;
  seconds = std::max(seconds, other.seconds);
  cpu_seconds += other.cpu_seconds;
  for (size_t i = 0; i < kBenchOperations; ++i) latency_ns[i].Merge(other.latency_ns[i]);
  counters += other.counters;
  errors.Merge(other.errors);
  interrupted |= other.interrupted;
  gave_up |= other.gave_up;
}

Result<PhaseResult> LoadRecords(Store& store, const RunnerOptions& options) {
  RecordIds ids(options.records, 0);
  const std::vector<uint64_t> order = OrderOfIds(options.load_order, KeyCodec(options.keys),
                                                 options.records, options.batch, options.seed);
  return Phase(store, options, ids, /*loading=*/true, order).Execute();
}

Result<PhaseResult> RunWorkload(Store& store, const RunnerOptions& options) {
  // As many for each process, so that the same records are popular in all.
  const uint64_t processes = options.share.processes;
  const uint64_t inserts =
      options.workload.has_inserts() ? (options.operations + processes - 1) / processes : 0;
  RecordIds ids(options.records, inserts, options.share);
  return Phase(store, options, ids, /*loading=*/false).Execute();
}

Result<WarmUpResult> WarmUp(Store& store, const RunnerOptions& options) {
  BOOST_OUTCOME_TRY(session, store.NewSession());
  constexpr uint64_t kKeysBetweenLooks = 4096;
  WarmUpResult result;
  Progress progress({.verb = "warming up", .unit = "keys", .total = options.records});
  const std::unique_ptr<ScanCursor> cursor = session->Scan({});
  while (cursor->Next()) {
    if (++result.keys % kKeysBetweenLooks != 0) continue;
    progress.Update(result.keys);
    if (options.should_stop && options.should_stop()) {
      result.interrupted = true;
      break;
    }
  }
  if (!cursor->status()) return cursor->status().error();
  return result;
}

}  // namespace gossamer::bench
