#include "compute/bench/client.h"

#include <time.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compute/bench/keys.h"

namespace gossamer::bench {
namespace {

// Processor time used by the calling thread.
double ThreadCpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// There is at least one. The cache is that of all.
Counters CountersOf(std::span<const std::unique_ptr<Session>> sessions) {
  Counters counters = sessions.front()->counters();
  for (const std::unique_ptr<Session>& session : sessions.subspan(1)) {
    counters += session->counters();
  }
  return counters;
}

class BenchClient {
 public:
  // All of them outlive the client. There is at least one session.
  BenchClient(std::span<const std::unique_ptr<Session>> sessions, PhaseState& phase,
              ClientThread& thread)
      : sessions_(sessions),
        session_(*sessions.front()),
        phase_(phase),
        codec_(phase.options.keys),
        seed_(phase.options.seed),
        value_bytes_(phase.options.value_bytes),
        remaining_(thread.count),
        next_to_load_(thread.first),
        result_(thread.result),
        finished_(thread.finished),
        failed_(thread.failed) {
    if (!phase.loading) {
      stream_.emplace(phase.options.workload, phase.options.theta, seed_, thread.number, phase.ids);
    }
  }

  // Works until no operation is left or the phase is stopped.
  void Run() {
    const RunnerOptions& options = phase_.options;
    if (phase_.loading && options.load_order == LoadOrder::kSorted) return WorkSorted();
    if (options.batch > 1) return WorkInBatches();
    for (uint32_t i = 0; i < options.coroutines; ++i) {
      Session& session = *sessions_[i % sessions_.size()];
      session.Spawn(Work(session));
    }
    WaitAll();
  }

 private:
  // One batch, split by the session calls that run it.
  struct Batch {
    Batch(uint32_t size, uint32_t value_bytes)
        : operations(size),
          buffers(size),
          keys(size),
          stored(size_t{size} * value_bytes),
          pairs(size),
          statuses(size, Ok()) {
      gets.reserve(size);
      get_operations.reserve(size);
      put_operations.reserve(size);
    }

    // Pair i is a put of operation `index`.
    void FillPair(size_t i, size_t index, const BenchClient& client) {
      const size_t bytes = client.value_bytes_;
      const std::span<char> value(stored.data() + i * bytes, bytes);
      FillValue(operations[index].id, client.seed_, value);
      pairs[i] = {keys[index], {value.data(), bytes}};
    }

    std::vector<DrawnOperation> operations;
    std::vector<KeyBuffer> buffers;
    std::vector<std::string_view> keys;  // of `operations`, in `buffers`
    size_t count = 0;                    // number of operations
    std::vector<std::string_view> gets;  // reads and first halves of read-modify-writes
    Values values;
    std::vector<size_t> get_operations;  // for each of `gets`: its index in `operations`
    std::vector<char> stored;            // values of `pairs`
    std::vector<KeyValueView> pairs;     // the first put_operations.size() are puts
    std::vector<Status> statuses;        // of `pairs`
    std::vector<size_t> put_operations;
    uint64_t gets_started = 0;  // by the phase's clock
  };

  bool Take(DrawnOperation& operation) {
    if (remaining_ == 0 || phase_.stop.load(std::memory_order_relaxed)) return false;
    --remaining_;
    operation = phase_.loading ? DrawnOperation{BenchOperation::kInsert, 0, NextIdToLoad()}
                               : stream_->Next();
    return true;
  }

  uint64_t NextIdToLoad() {
    const uint64_t next = next_to_load_++;
    return phase_.load_ids.empty() ? next : phase_.load_ids[next];
  }

  // Records what began at `start`, and returns its end. Both are by the phase's clock.
  uint64_t Lap(BenchOperation kind, uint64_t start) {
    const uint64_t now = phase_.clock.Now();
    Record(kind, start, now);
    return now;
  }

  // Times of operations that have succeeded, by the phase's clock.
  void Record(BenchOperation kind, uint64_t start, uint64_t end) {
    RecordMany(kind, start, end, 1);
  }
  void RecordMany(BenchOperation kind, uint64_t start, uint64_t end, uint64_t times) {
    result_.latency_ns[static_cast<size_t>(kind)].RecordMany(
        phase_.clock.NanosecondsBetween(start, end), times);
  }

  // This thread alone writes `count`.
  static void AddOne(std::atomic<uint64_t>& count) {
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  void Succeed() {
    ++result_.operations;
    failures_in_a_row_ = 0;
    AddOne(finished_);
  }

  void Fail(const Error& error) {
    result_.errors.Add(error);
    AddOne(failed_);
    AddOne(finished_);
    if (failures_in_a_row_++ == 0) failing_since_ = phase_.clock.Now();
    // An outage should not use up the operations that are to show the recovery.
    if (phase_.options.max_error_seconds != 0 && !phase_.loading) ++remaining_;
    if (!MustGiveUp()) return;
    phase_.gave_up.store(true);
    phase_.stop.store(true);
  }

  bool MustGiveUp() const {
    const uint64_t most_seconds = phase_.options.max_error_seconds;
    if (most_seconds == 0) return failures_in_a_row_ >= kFailuresToGiveUp;
    return phase_.clock.NanosecondsBetween(failing_since_, phase_.clock.Now()) >
           most_seconds * 1'000'000'000;
  }

  template <typename T>
  bool Check(const Result<T>& value) {
    if (value) return true;
    Fail(value.error());
    return false;
  }

  void AcknowledgeInsert(uint64_t id) {
    if (!phase_.loading) phase_.ids.Acknowledge(id);
  }

  ScanOptions ScanFrom(const DrawnOperation& operation, KeyBuffer& buffer) const {
    ScanOptions options;
    options.from = codec_.Encode(operation.id, buffer);
    options.limit = operation.scan_length;
    return options;
  }

  // The first key of a scan exists, so a scan without keys is as wrong as a failed one.
  bool FinishScan(const ScanCursor& cursor, uint64_t keys) {
    if (!Check(cursor.status())) return false;
    if (keys == 0) {
      Fail(MakeError(Code::kNotFound, "a scan that starts at an existing key returned no key"));
      return false;
    }
    result_.scanned_keys += keys;
    return true;
  }

  void WaitAll() {
    if (sessions_.size() == 1) return session_.WaitAll();
    size_t left = 0;
    do {
      left = 0;
      for (const std::unique_ptr<Session>& session : sessions_) left += session->Poll();
    } while (left != 0);
  }

  // One operation after the other: one of `coroutines`.
  Task<void> Work(Session& session) {
    KeyBuffer buffer;
    std::string value(value_bytes_, '\0');
    DrawnOperation operation;
    uint64_t now = phase_.clock.Now();
    while (Take(operation)) {
      const uint64_t start = now;
      const std::string_view key = codec_.Encode(operation.id, buffer);
      bool is_done = false;
      switch (operation.kind) {
        case BenchOperation::kRead: is_done = Check(co_await session.AsyncGet(key)); break;
        case BenchOperation::kUpdate:
        case BenchOperation::kInsert:
          FillValue(operation.id, seed_, value);
          is_done = Check(co_await session.AsyncPut(key, value));
          if (is_done && operation.kind == BenchOperation::kInsert) AcknowledgeInsert(operation.id);
          break;
        case BenchOperation::kReadModifyWrite:
          if (!Check(co_await session.AsyncGet(key))) break;
          now = Lap(BenchOperation::kRead, start);
          FillValue(operation.id, seed_, value);
          if (!Check(co_await session.AsyncPut(key, value))) break;
          now = Lap(BenchOperation::kUpdate, now);
          Record(BenchOperation::kReadModifyWrite, start, now);
          Succeed();
          continue;
        case BenchOperation::kScan: {
          const std::unique_ptr<ScanCursor> cursor = session.Scan(ScanFrom(operation, buffer));
          uint64_t keys = 0;
          while (co_await cursor->AsyncNext()) ++keys;
          is_done = FinishScan(*cursor, keys);
          break;
        }
      }
      if (is_done) {
        now = Lap(operation.kind, start);
        Succeed();
      } else {
        now = phase_.clock.Now();
      }
    }
  }

  // With MultiGet and MultiPut.
  void WorkInBatches() {
    Batch batch(phase_.options.batch, value_bytes_);
    while (true) {
      Fill(batch);
      if (batch.count == 0) return;
      DoGets(batch);
      DoPuts(batch);
      DoScans(batch);
    }
  }

  // While loading records in the order of their keys: by Session::LoadSorted.
  void WorkSorted() {
    constexpr uint32_t kChunk = 8192;  // builds some hundred leaves
    constexpr double kFill = 1;
    Batch batch(kChunk, value_bytes_);
    while (true) {
      Fill(batch);
      if (batch.count == 0) return;
      for (size_t i = 0; i < batch.count; ++i) batch.FillPair(i, i, *this);
      for (size_t done = 0; done < batch.count && !phase_.stop.load(std::memory_order_relaxed);) {
        const uint64_t start = phase_.clock.Now();
        const SortedLoad load = session_.LoadSorted(
            std::span<const KeyValueView>(batch.pairs).subspan(done, batch.count - done), kFill);
        RecordMany(BenchOperation::kInsert, start, phase_.clock.Now(), load.loaded);
        for (size_t i = 0; i < load.loaded; ++i) Succeed();
        done += load.loaded;
        if (load.status) continue;
        Fail(load.status.error());
        ++done;
      }
    }
  }

  void Fill(Batch& batch) {
    batch.count = 0;
    batch.gets.clear();
    batch.get_operations.clear();
    batch.put_operations.clear();
    while (batch.count < batch.operations.size()) {
      const size_t index = batch.count;
      DrawnOperation& operation = batch.operations[index];
      if (!Take(operation)) return;
      ++batch.count;
      const std::string_view key = codec_.Encode(operation.id, batch.buffers[index]);
      batch.keys[index] = key;
      switch (operation.kind) {
        case BenchOperation::kRead:
        case BenchOperation::kReadModifyWrite:
          batch.gets.push_back(key);
          batch.get_operations.push_back(index);
          break;
        case BenchOperation::kUpdate:
        case BenchOperation::kInsert: batch.put_operations.push_back(index); break;
        case BenchOperation::kScan: break;
      }
    }
  }

  void DoGets(Batch& batch) {
    batch.gets_started = phase_.clock.Now();
    if (batch.gets.empty()) return;
    session_.MultiGet(batch.gets, batch.values);
    const uint64_t end = phase_.clock.Now();
    for (size_t i = 0; i < batch.values.size(); ++i) {
      if (!Check(batch.values[i])) continue;
      Record(BenchOperation::kRead, batch.gets_started, end);
      const size_t index = batch.get_operations[i];
      if (batch.operations[index].kind == BenchOperation::kReadModifyWrite) {
        batch.put_operations.push_back(index);
      } else {
        Succeed();
      }
    }
  }

  void DoPuts(Batch& batch) {
    if (batch.put_operations.empty()) return;
    for (size_t i = 0; i < batch.put_operations.size(); ++i) {
      batch.FillPair(i, batch.put_operations[i], *this);
    }
    const uint64_t start = phase_.clock.Now();
    const auto statuses = std::span(batch.statuses).first(batch.put_operations.size());
    session_.MultiPut(std::span(batch.pairs).first(statuses.size()), statuses);
    const uint64_t end = phase_.clock.Now();
    uint64_t inserts = 0;
    uint64_t updates = 0;
    uint64_t modified = 0;
    for (size_t i = 0; i < statuses.size(); ++i) {
      if (!Check(statuses[i])) continue;
      const DrawnOperation& operation = batch.operations[batch.put_operations[i]];
      const bool insert = operation.kind == BenchOperation::kInsert;
      if (insert) AcknowledgeInsert(operation.id);
      ++(insert ? inserts : updates);
      if (operation.kind == BenchOperation::kReadModifyWrite) ++modified;
      Succeed();
    }
    RecordMany(BenchOperation::kInsert, start, end, inserts);
    RecordMany(BenchOperation::kUpdate, start, end, updates);
    RecordMany(BenchOperation::kReadModifyWrite, batch.gets_started, end, modified);
  }

  void DoScans(Batch& batch) {
    for (size_t i = 0; i < batch.count; ++i) {
      if (batch.operations[i].kind != BenchOperation::kScan) continue;
      const uint64_t start = phase_.clock.Now();
      const std::unique_ptr<ScanCursor> cursor =
          session_.Scan(ScanFrom(batch.operations[i], batch.buffers[i]));
      uint64_t keys = 0;
      while (cursor->Next()) ++keys;
      if (!FinishScan(*cursor, keys)) continue;
      Lap(BenchOperation::kScan, start);
      Succeed();
    }
  }

  const std::span<const std::unique_ptr<Session>> sessions_;
  Session& session_;  // the first one, which runs batches and sorted loads
  PhaseState& phase_;
  const KeyCodec codec_;
  const uint64_t seed_;
  const uint32_t value_bytes_;
  uint64_t remaining_;
  uint64_t next_to_load_;
  std::optional<OperationStream> stream_;  // of the run phase
  uint64_t failures_in_a_row_ = 0;
  uint64_t failing_since_ = 0;  // by the phase's clock: the first of them
  PhaseResult& result_;
  std::atomic<uint64_t>& finished_;
  std::atomic<uint64_t>& failed_;
};

}  // namespace

void RunClient(Store& store, PhaseState& phase, ClientThread& thread) {
  std::vector<std::unique_ptr<Session>> sessions;
  for (uint32_t i = 0; i < phase.options.sessions; ++i) {
    Result<std::unique_ptr<Session>> opened = store.NewSession();
    if (!opened) {
      thread.error = opened.error();
      phase.ready.count_down();
      return;
    }
    sessions.push_back(std::move(opened).value());
  }
  BenchClient client(sessions, phase, thread);
  const Counters before = CountersOf(sessions);
  phase.ready.count_down();
  phase.go.wait();
  const double cpu_before = ThreadCpuSeconds();
  client.Run();
  thread.end = std::chrono::steady_clock::now();
  thread.result.cpu_seconds = ThreadCpuSeconds() - cpu_before;
  thread.result.counters = Since(before, CountersOf(sessions));
}

}  // namespace gossamer::bench
