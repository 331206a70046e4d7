#include "compute/cli/load.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/text/progress.h"
#include "compute/cli/load_line.h"
#include "proto/key.h"

namespace gossamer::cli {
namespace {

// Many, because leaves are built from the neighbours among them; few, because a signal waits for
// them.
constexpr size_t kBatchLines = 4096;
constexpr size_t kBatchBytes = 1 << 20;
// Fewer lines may ascend by chance.
constexpr size_t kLeastSorted = 64;
// Of a worker.
constexpr size_t kQueuedBatches = 8;

// State shared by all workers. Once `halted`, no worker starts another batch.
struct LoadShared {
  const Stop& stop;
  std::atomic<bool> halted = false;

  bool Halted() const { return stop.raised() || halted.load(std::memory_order_relaxed); }
};

// One thread, one session, a batch of lines at a time. The reading thread calls its public
// functions.
class LoadWorker {
 public:
  static constexpr uint64_t kNoLine = std::numeric_limits<uint64_t>::max();

  struct Report {
    uint64_t inserted = 0;
    uint64_t overwritten = 0;
    uint64_t first_not_loaded = kNoLine;  // the lowest line that it received and did not store
    std::optional<LoadError> error;       // the error with the lowest line
  };

  LoadWorker(std::unique_ptr<Session> session, const LoadOptions& options, LoadShared& shared)
      : session_(std::move(session)), fill_(options.fill), shared_(shared) {
    thread_ = std::thread([this] { Run(); });
  }
  ~LoadWorker() { Join(); }
  LoadWorker(const LoadWorker&) = delete;
  LoadWorker& operator=(const LoadWorker&) = delete;

  // Waits while the worker's queue is full.
  void Push(std::unique_ptr<LoadBatch> batch) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.size() < kQueuedBatches; });
    queue_.push_back(std::move(batch));
    changed_.notify_all();
  }
  // Waits until all batches are done.
  void Drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.empty() && !is_busy_; });
  }
  // Likewise; no more batches follow.
  void Join() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  uint64_t loaded() const { return loaded_.load(std::memory_order_relaxed); }
  // Requires (unchecked): Join was called.
  const Report& report() const { return report_; }

 private:
  void Run() {
    while (const std::unique_ptr<const LoadBatch> batch = Pop()) {
      if (shared_.Halted()) {
        NotLoaded(batch->lines.front().number);  // and so are all later lines
        continue;
      }
      pairs_.clear();
      for (const LoadBatch::Line& line : batch->lines) {
        pairs_.push_back({batch->key(line), batch->value(line), line.expiry});
      }
      batch->is_sorted ? LoadAll(*batch) : PutAll(*batch);
    }
    const Counters counters = session_->counters();
    report_.inserted = counters.of(OperationClass::kInsert).operations +
                       counters.of(OperationClass::kInsertSplit).operations;
    report_.overwritten = counters.of(OperationClass::kUpdate).operations;
  }

  // The next batch; null after the last. The one before is done.
  std::unique_ptr<const LoadBatch> Pop() {
    std::unique_lock lock(mutex_);
    is_busy_ = false;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !queue_.empty() || closed_; });
    if (queue_.empty()) return nullptr;
    std::unique_ptr<const LoadBatch> batch = std::move(queue_.front());
    queue_.pop_front();
    is_busy_ = true;
    changed_.notify_all();
    return batch;
  }

  void PutAll(const LoadBatch& batch) {
    results_.assign(pairs_.size(), Ok());
    session_->MultiPut(pairs_, results_);
    for (size_t i = 0; i < results_.size(); ++i) {
      if (results_[i]) {
        AddLoaded(1);
      } else {
        Failed(batch.lines[i].number, results_[i].error());
      }
    }
  }

  // The same of a sorted batch. Behind a line that failed, none is stored.
  void LoadAll(const LoadBatch& batch) {
    const SortedLoad load = session_->LoadSorted(pairs_, fill_);
    AddLoaded(load.stored);
    if (!load.status) Failed(batch.lines[load.loaded].number, load.status.error());
  }

  void AddLoaded(uint64_t lines) {
    loaded_.store(loaded_.load(std::memory_order_relaxed) + lines, std::memory_order_relaxed);
  }

  void Failed(uint64_t line, const Error& error) {
    shared_.halted.store(true, std::memory_order_relaxed);
    NotLoaded(line);
    if (!report_.error || line < report_.error->line) report_.error = LoadError{line, error};
  }

  void NotLoaded(uint64_t line) {
    report_.first_not_loaded = std::min(report_.first_not_loaded, line);
  }

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

// One load: the reading thread and its workers.
class Loader {
 public:
  Loader(Store& store, const InputFile& file, const LoadOptions& options, const Stop& stop,
         const std::function<void(const LoadError&)>& skipped)
      : store_(store),
        options_(options),
        skipped_(skipped),
        reader_(file.fd(), MaxLineBytes(store.parameters()), &stop),
        shared_{stop},
        progress_({.verb = "loading", .unit = "lines"}) {}

  LoadReport Run() {
    if (const Status started = StartWorkers(); !started) {
      End(0, started.error());
    } else {
      while (ReadLine()) {
      }
    }
    if (!workers_.empty()) Flush();
    for (const auto& worker : workers_) worker->Join();
    return Summarise();
  }

 private:
  Status StartWorkers() {
    const uint32_t threads = options_.sorted ? 1 : std::max<uint32_t>(options_.threads, 1);
    std::vector<std::unique_ptr<LoadWorker>> workers;
    for (uint32_t i = 0; i < threads; ++i) {
      BOOST_OUTCOME_TRY(session, store_.NewSession());
      workers.push_back(std::make_unique<LoadWorker>(std::move(session), options_, shared_));
    }
    workers_ = std::move(workers);
    return Ok();
  }

  // Returns whether to go on.
  bool ReadLine() {
    if (shared_.Halted()) return false;
    // Pending lines must not wait for a silent pipe.
    if (!reader_.has_line()) Flush();
    switch (reader_.Advance()) {
      case LineReader::Next::kEnd: at_end_ = true; return false;
      case LineReader::Next::kStopped: return false;
      case LineReader::Next::kFailed:
        End(0, MakeError(Code::kInvalidArgument, "reading failed: " + reader_.error()));
        return false;
      case LineReader::Next::kTooLong:
        if (reader_.number() < options_.from_line) return true;
        ++report_.lines;
        return Bad(MakeError(Code::kInvalidArgument,
                             "the line is longer than any key and value of this store"));
      case LineReader::Next::kLine: break;
    }
    report_.last_line_unterminated = !reader_.terminated();
    if (reader_.number() < options_.from_line) return true;
    ++report_.lines;
    return AddLine();
  }

  bool AddLine() {
    LoadBatch& batch = *pending_;
    const size_t before = batch.bytes.size();
    const Result<LoadBatch::Line> decoded =
        DecodeLine(reader_.line(), options_.form, store_.parameters(), batch.bytes);
    if (!decoded) return Bad(decoded.error());
    LoadBatch::Line line = decoded.value();
    line.number = reader_.number();
    const std::string_view key = batch.key(line);
    const bool ascends = key >= std::string_view(last_key_);
    if (!ascends && options_.sorted) {
      batch.bytes.resize(before);
      End(line.number,
          MakeError(Code::kInvalidArgument,
                    "its key is less than that of a line before: sort the lines by their keys' "
                    "bytes, or load them without --sorted"));
      return false;
    }
    batch.is_sorted = batch.is_sorted && (ascends || batch.lines.empty());
    last_key_ = key;
    batch.lines.push_back(line);
    if (batch.lines.size() >= kBatchLines || batch.bytes.size() >= kBatchBytes) Flush();
    return true;
  }

  bool Bad(const Error& error) {
    if (!options_.skip_errors) {
      End(reader_.number(), error);
      bad_line_ = reader_.number();
      return false;
    }
    ++report_.skipped;
    skipped_({reader_.number(), error});
    return true;
  }

  void End(uint64_t line, const Error& error) { report_.error = LoadError{line, error}; }

  // Passes on the pending lines.
  void Flush() {
    if (pending_->lines.empty()) return;
    std::unique_ptr<LoadBatch> batch = std::exchange(pending_, std::make_unique<LoadBatch>());
    const bool is_short = batch->lines.size() < kLeastSorted && !options_.sorted;
    batch->is_sorted = batch->is_sorted && !is_short;
    // The lines of a key come to different workers then, but in their order.
    if (batch->is_sorted != was_sorted_) {
      for (const auto& worker : workers_) worker->Drain();
    }
    was_sorted_ = batch->is_sorted;
    if (batch->is_sorted || workers_.size() == 1) {
      workers_[0]->Push(std::move(batch));
    } else {
      Distribute(*batch);
    }
    progress_.Update(Loaded());
  }

  void Distribute(const LoadBatch& batch) {
    std::vector<std::unique_ptr<LoadBatch>> parts(workers_.size());
    for (LoadBatch::Line line : batch.lines) {
      const size_t worker = KeyHash(batch.key(line)) % workers_.size();
      std::unique_ptr<LoadBatch>& part = parts[worker];
      if (part == nullptr) {
        part = std::make_unique<LoadBatch>();
        part->is_sorted = false;
      }
      const size_t at = part->bytes.size();
      part->bytes += batch.key(line);
      part->bytes += batch.value(line);
      line.at = at;
      part->lines.push_back(line);
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i] != nullptr) workers_[i]->Push(std::move(parts[i]));
    }
  }

  uint64_t Loaded() const {
    uint64_t loaded = 0;
    for (const auto& worker : workers_) loaded += worker->loaded();
    return loaded;
  }

  LoadReport Summarise() {
    report_.loaded = Loaded();
    report_.bytes = reader_.bytes_read();
    report_.seconds = progress_.elapsed_seconds();
    uint64_t resume = LoadWorker::kNoLine;
    for (const auto& worker : workers_) {
      const LoadWorker::Report& part = worker->report();
      report_.inserted += part.inserted;
      report_.overwritten += part.overwritten;
      resume = std::min(resume, part.first_not_loaded);
      if (part.error && (!report_.error || part.error->line < report_.error->line)) {
        report_.error = part.error;
      }
    }
    if (bad_line_ && resume > *bad_line_) {
      resume = *bad_line_ + 1;
      report_.resumes_behind_bad_line = true;
    } else if (report_.error && report_.error->line != 0) {
      resume = std::min(resume, report_.error->line);
    }
    if (resume == LoadWorker::kNoLine && !at_end_) {
      resume = std::max(reader_.number() + 1, options_.from_line);
    }
    if (resume != LoadWorker::kNoLine) {
      report_.resume_line = resume;
      const uint64_t first = std::max<uint64_t>(options_.from_line, 1);
      const uint64_t bad = report_.resumes_behind_bad_line ? 1 : 0;
      report_.stored_ahead = report_.loaded + report_.skipped + bad > resume - first;
      report_.stopped = !report_.error;
    }
    return report_;
  }

  Store& store_;
  const LoadOptions& options_;
  const std::function<void(const LoadError&)>& skipped_;
  LineReader reader_;
  LoadShared shared_;
  std::vector<std::unique_ptr<LoadWorker>> workers_;
  std::unique_ptr<LoadBatch> pending_ = std::make_unique<LoadBatch>();
  std::string last_key_;     // none is below the empty one
  bool was_sorted_ = false;  // the batch before
  Progress progress_;
  bool at_end_ = false;
  std::optional<uint64_t> bad_line_;  // the bad line that ended the load
  LoadReport report_;
};

}  // namespace

LoadReport Load(Store& store, const InputFile& file, const LoadOptions& options, const Stop& stop,
                const std::function<void(const LoadError&)>& skipped) {
  return Loader(store, file, options, stop, skipped).Run();
}

}  // namespace gossamer::cli
