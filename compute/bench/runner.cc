#include "compute/bench/runner.h"

#include <time.h>

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

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// Processor time used by the calling thread.
double ThreadCpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// One thread of a phase and its results.
struct Worker {
  Share share;
  std::unique_ptr<Session> session;     // created and used by `thread` only
  std::unique_ptr<BenchClient> client;  // valid once the thread is ready
  std::optional<Error> error;           // why there is no session
  Counters before;
  Counters after;
  Clock::time_point end;
  double cpu_seconds = 0;
  std::thread thread;
};

class Phase {
 public:
  // `load_ids`: of PhaseState.
  Phase(Store& store, const RunnerOptions& options, RecordIds& ids, bool loading,
        std::span<const uint64_t> load_ids = {})
      : store_(store),
        options_(options),
        state_{options, ids, false, false, load_ids},
        loading_(loading),
        total_(loading ? options.records : options.operations),
        workers_(options.threads),
        ready_(options.threads) {}

  Result<PhaseResult> Execute() {
    uint64_t first = 0;
    for (uint32_t i = 0; i < workers_.size(); ++i) {
      const uint64_t past = total_ * (i + 1) / workers_.size();
      workers_[i].share = {
          .thread = i, .count = past - first, .loading = loading_, .first_id = first};
      first = past;
      workers_[i].thread = std::thread([this, &worker = workers_[i]] { Body(worker); });
    }
    ready_.wait();
    std::optional<Error> error;
    for (const Worker& worker : workers_) {
      if (worker.error) error = worker.error;
    }
    if (error) state_.stop.store(true);
    const Clock::time_point start = Clock::now();
    go_.count_down();
    const bool interrupted = Watch(start);
    for (Worker& worker : workers_) worker.thread.join();
    if (error) return *error;
    return Collect(start, interrupted);
  }

 private:
  void Body(Worker& worker) {
    Result<std::unique_ptr<Session>> session = store_.NewSession();
    if (session) {
      worker.session = std::move(session).value();
      worker.client = std::make_unique<BenchClient>(*worker.session, state_, worker.share);
      worker.before = worker.session->counters();
    } else {
      worker.error = session.error();
    }
    ready_.count_down();
    go_.wait();
    if (worker.client != nullptr) {
      const double cpu_before = ThreadCpuSeconds();
      if (loading_ && options_.load_order == LoadOrder::kSorted) {
        worker.client->WorkSorted();
      } else if (options_.batch > 1) {
        worker.client->WorkInBatches();
      } else {
        for (uint32_t i = 0; i < options_.coroutines; ++i) {
          worker.session->Spawn(worker.client->Work());
        }
        worker.session->WaitAll();
      }
      worker.end = Clock::now();
      worker.cpu_seconds = ThreadCpuSeconds() - cpu_before;
      worker.after = worker.session->counters();
      worker.session.reset();
    }
    const std::lock_guard lock(mutex_);
    ++finished_threads_;
    finished_.notify_one();
  }

  uint64_t Finished() const {
    uint64_t done = 0;
    for (const Worker& worker : workers_) {
      if (worker.client != nullptr) done += worker.client->finished();
    }
    return done;
  }

  // Shows progress until all threads have finished. Returns whether a stop was requested.
  bool Watch(Clock::time_point start) {
    Progress progress({.verb = loading_ ? "loading" : "running",
                       .unit = loading_ ? "records" : "operations",
                       .total = total_,
                       .enabled = options_.show_progress});
    bool interrupted = false;
    const std::chrono::milliseconds interval =
        options_.progress_ms == 0 ? kWatchInterval
                                  : std::chrono::milliseconds(options_.progress_ms);
    std::unique_lock lock(mutex_);
    while (!finished_.wait_for(lock, interval,
                               [this] { return finished_threads_ == workers_.size(); })) {
      if (options_.should_stop && !interrupted && options_.should_stop()) {
        interrupted = true;
        state_.stop.store(true);
      }
      const uint64_t done = Finished();
      progress.Update(done);
      if (options_.progress_ms != 0) points_.push_back({Seconds(Clock::now() - start), done});
    }
    return interrupted;
  }

  // The points, and the end of the last operation as the last one.
  void EndProgress(PhaseResult& total) {
    while (!points_.empty() && points_.back().seconds >= total.seconds) points_.pop_back();
    points_.push_back({total.seconds, Finished()});
    total.progress = std::move(points_);
  }

  PhaseResult Collect(Clock::time_point start, bool interrupted) {
    PhaseResult total;
    Clock::time_point end = start;
    for (const Worker& worker : workers_) {
      const PhaseResult& result = worker.client->result();
      total.operations += result.operations;
      total.scanned_keys += result.scanned_keys;
      for (size_t i = 0; i < kLatencyClasses; ++i) {
        total.latency_ns[i].Merge(result.latency_ns[i]);
      }
      total.errors.Merge(result.errors);
      total.counters += Since(worker.before, worker.after);
      end = std::max(end, worker.end);
      total.cpu_seconds += worker.cpu_seconds;
    }
    total.counters.cache.bytes = workers_.front().after.cache.bytes;
    total.seconds = Seconds(end - start);
    if (options_.progress_ms != 0) EndProgress(total);
    total.gave_up = state_.gave_up.load();
    total.interrupted = interrupted && total.operations + total.errors.total() < total_;
    return total;
  }

  Store& store_;
  const RunnerOptions& options_;
  PhaseState state_;
  const bool loading_;
  const uint64_t total_;  // operations
  std::vector<Worker> workers_;
  std::vector<ProgressPoint> points_;
  std::latch ready_;
  std::latch go_{1};
  std::mutex mutex_;
  std::condition_variable finished_;
  size_t finished_threads_ = 0;  // guarded by mutex_
};

}  // namespace

std::string_view LatencyClassName(LatencyClass latency_class) {
  constexpr std::array<std::string_view, kLatencyClasses> kNames = {
      "read", "update", "insert", "scan", "delete", "read_modify_write"};
  return kNames[static_cast<size_t>(latency_class)];
}

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

Result<PhaseResult> LoadRecords(Store& store, const RunnerOptions& options) {
  RecordIds ids(options.records, 0);
  const std::vector<uint64_t> order = OrderOfIds(options.load_order, KeyCodec(options.keys),
                                                 options.records, options.batch, options.seed);
  return Phase(store, options, ids, /*loading=*/true, order).Execute();
}

Result<PhaseResult> RunWorkload(Store& store, const RunnerOptions& options) {
  RecordIds ids(options.records, options.workload.has_inserts() ? options.operations : 0);
  return Phase(store, options, ids, /*loading=*/false).Execute();
}

Result<WarmUpResult> WarmUp(Store& store, const RunnerOptions& options) {
  BOOST_OUTCOME_TRY(session, store.NewSession());
  constexpr uint64_t kKeysBetweenLooks = 4096;
  WarmUpResult result;
  Progress progress({.verb = "warming up",
                     .unit = "keys",
                     .total = options.records,
                     .enabled = options.show_progress});
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
