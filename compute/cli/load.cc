#include "compute/cli/load.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/text/progress.h"
#include "compute/cli/load_line.h"
#include "compute/cli/load_worker.h"
#include "proto/key.h"

namespace gossamer::cli {
namespace {

constexpr size_t kBatchLines = 512;
constexpr size_t kBatchBytes = 256 << 10;
// Of a sorted load, in which a batch is built into leaves.
constexpr size_t kSortedBatchLines = 8192;
constexpr size_t kSortedBatchBytes = 1 << 20;

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
        progress_({.verb = "loading", .unit = "lines", .enabled = options.show_progress}) {}

  LoadReport Run() {
    if (const Status started = StartWorkers(); !started) {
      End(0, started.error());
    } else {
      while (ReadLine()) {
      }
    }
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (!pending_[i]->lines.empty()) workers_[i]->Push(std::move(pending_[i]));
      workers_[i]->Close();
    }
    for (const auto& worker : workers_) worker->Join();
    return Summarise();
  }

 private:
  Status StartWorkers() {
    const uint32_t threads = options_.sorted_fill ? 1 : std::max<uint32_t>(options_.threads, 1);
    for (uint32_t i = 0; i < threads; ++i) {
      Result<std::unique_ptr<Session>> session = store_.NewSession();
      if (!session) return session.error();
      workers_.push_back(
          std::make_unique<LoadWorker>(std::move(session).value(), options_, shared_));
      pending_.push_back(std::make_unique<LoadBatch>());
    }
    return Ok();
  }

  // Returns whether to go on.
  bool ReadLine() {
    if (shared_.Halted()) return false;
    // Pending lines must not wait for a silent pipe.
    if (!reader_.has_line()) FlushAll();
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
    // Decode into a scratch string, because the key decides which worker gets the line.
    scratch_.clear();
    const Result<LoadBatch::Line> decoded =
        DecodeLine(reader_.line(), options_.form, store_.parameters(), scratch_);
    if (!decoded) return Bad(decoded.error());
    LoadBatch::Line line = decoded.value();
    line.number = reader_.number();
    const std::string_view key = std::string_view(scratch_).substr(0, line.key_bytes);
    line.key_hash = KeyHash(key);
    if (options_.sorted_fill) {
      if (last_key_ && key < *last_key_) {
        End(line.number,
            MakeError(Code::kInvalidArgument,
                      "its key is less than that of a line before: sort the lines by their keys' "
                      "bytes, or load them without --sorted"));
        return false;
      }
      last_key_ = key;
    }
    const size_t worker = line.key_hash % workers_.size();
    LoadBatch& batch = *pending_[worker];
    line.at = batch.bytes.size();
    batch.bytes += scratch_;
    batch.lines.push_back(line);
    const bool is_sorted = options_.sorted_fill.has_value();
    const bool is_full = batch.lines.size() >= (is_sorted ? kSortedBatchLines : kBatchLines) ||
                         batch.bytes.size() >= (is_sorted ? kSortedBatchBytes : kBatchBytes);
    if (is_full) Flush(worker);
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

  void Flush(size_t worker) {
    workers_[worker]->Push(std::exchange(pending_[worker], std::make_unique<LoadBatch>()));
    progress_.Update(Loaded());
  }

  void FlushAll() {
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (!pending_[i]->lines.empty()) Flush(i);
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
  std::vector<std::unique_ptr<LoadBatch>> pending_;  // one for each worker
  std::string scratch_;
  std::optional<std::string> last_key_;  // of a sorted load
  Progress progress_;
  bool at_end_ = false;
  std::optional<uint64_t> bad_line_;  // the bad line that ended the load
  LoadReport report_;
};

}  // namespace

size_t MaxLineBytes(const StoreParameters& parameters) {
  constexpr size_t kEscapedByte = 4;  // \xHH
  return kEscapedByte * (parameters.max_key_bytes + size_t{kMaxValueBytes} + 1);
}

LoadReport Load(Store& store, const InputFile& file, const LoadOptions& options, const Stop& stop,
                const std::function<void(const LoadError&)>& skipped) {
  return Loader(store, file, options, stop, skipped).Run();
}

}  // namespace gossamer::cli
