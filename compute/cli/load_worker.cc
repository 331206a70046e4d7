#include "compute/cli/load_worker.h"

#include <algorithm>
#include <utility>

namespace gossamer::cli {
namespace {

constexpr size_t kQueuedBatches = 8;

}  // namespace

LoadWorker::LoadWorker(std::unique_ptr<Session> session, const LoadOptions& options,
                       LoadShared& shared)
    : session_(std::move(session)), fill_(options.fill), shared_(shared) {
  thread_ = std::thread([this] { Run(); });
}

LoadWorker::~LoadWorker() {
  Close();
  Join();
}

void LoadWorker::Push(std::unique_ptr<LoadBatch> batch) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.size() < kQueuedBatches; });
  queue_.push_back(std::move(batch));
  changed_.notify_all();
}

void LoadWorker::Drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !is_busy_; });
}

void LoadWorker::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void LoadWorker::Join() {
  if (thread_.joinable()) thread_.join();
}

std::unique_ptr<const LoadBatch> LoadWorker::Pop() {
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

void LoadWorker::Run() {
  while (const std::unique_ptr<const LoadBatch> batch = Pop()) {
    if (shared_.Halted()) {
      NotLoaded(batch->lines.front().number);  // and so are all later lines
      continue;
    }
    pairs_.clear();
    for (const LoadBatch::Line& line : batch->lines) {
      pairs_.push_back({batch->key(line), batch->value(line)});
    }
    batch->is_sorted ? LoadAll(*batch) : PutAll(*batch);
  }
  const Counters counters = session_->counters();
  report_.inserted = counters.of(OperationClass::kInsert).operations +
                     counters.of(OperationClass::kInsertSplit).operations;
  report_.overwritten = counters.of(OperationClass::kUpdate).operations;
}

void LoadWorker::PutAll(const LoadBatch& batch) {
  results_.assign(pairs_.size(), Ok());
  session_->MultiPut(pairs_, results_);
  uint64_t loaded = 0;
  for (size_t i = 0; i < results_.size(); ++i) {
    if (results_[i]) {
      ++loaded;
    } else {
      Failed(batch.lines[i].number, results_[i].error());
    }
  }
  AddLoaded(loaded);
}

void LoadWorker::LoadAll(const LoadBatch& batch) {
  const SortedLoad load = session_->LoadSorted(pairs_, fill_);
  AddLoaded(load.stored);
  if (!load.status) Failed(batch.lines[load.loaded].number, load.status.error());
}

void LoadWorker::AddLoaded(uint64_t lines) {
  loaded_.store(loaded_.load(std::memory_order_relaxed) + lines, std::memory_order_relaxed);
}

void LoadWorker::Failed(uint64_t line, const Error& error) {
  shared_.halted.store(true, std::memory_order_relaxed);
  NotLoaded(line);
  if (!report_.error || line < report_.error->line) report_.error = LoadError{line, error};
}

void LoadWorker::NotLoaded(uint64_t line) {
  report_.first_not_loaded = std::min(report_.first_not_loaded, line);
}

}  // namespace gossamer::cli
