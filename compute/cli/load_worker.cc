#include "compute/cli/load_worker.h"

#include <algorithm>
#include <utility>

namespace gossamer::cli {
namespace {

constexpr size_t kQueuedBatches = 8;

}  // namespace

LoadWorker::LoadWorker(std::unique_ptr<Session> session, const LoadOptions& options,
                       LoadShared& shared)
    : session_(std::move(session)),
      in_flight_(std::max<uint32_t>(options.in_flight, 1)),
      sorted_fill_(options.sorted_fill),
      shared_(shared) {
  keys_in_flight_.reserve(in_flight_);
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

void LoadWorker::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void LoadWorker::Join() {
  if (thread_.joinable()) thread_.join();
}

LoadWorker::BatchPtr LoadWorker::Pop() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !queue_.empty() || closed_; });
  if (queue_.empty()) return nullptr;
  BatchPtr batch = std::move(queue_.front());
  queue_.pop_front();
  changed_.notify_all();
  return batch;
}

bool LoadWorker::QueueEmpty() {
  const std::lock_guard lock(mutex_);
  return queue_.empty();
}

void LoadWorker::Run() {
  while (const BatchPtr batch = Pop()) {
    if (sorted_fill_) {
      LoadAll(*batch);
      continue;
    }
    PutAll(batch);
    // Puts in flight progress only while the session is driven: finish them before waiting for
    // input.
    if (QueueEmpty()) session_->WaitAll();
  }
  session_->WaitAll();
  const Counters counters = session_->counters();
  report_.inserted = counters.of(OperationClass::kInsert).operations +
                     counters.of(OperationClass::kInsertSplit).operations;
  report_.overwritten = counters.of(OperationClass::kUpdate).operations;
}

void LoadWorker::PutAll(const BatchPtr& batch) {
  for (const LoadBatch::Line& line : batch->lines) {
    while (keys_in_flight_.size() >= in_flight_ || InFlight(line.key_hash)) session_->Poll();
    if (shared_.Halted()) {
      NotLoaded(line.number);  // and so are all later lines
      return;
    }
    keys_in_flight_.push_back(line.key_hash);
    session_->Spawn(PutLine(batch, line));
  }
}

Task<void> LoadWorker::PutLine(BatchPtr batch, const LoadBatch::Line& line) {
  const Status status = co_await session_->AsyncPut(batch->key(line), batch->value(line));
  Leave(line.key_hash);
  if (status) {
    loaded_.store(loaded_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    co_return;
  }
  Failed(line.number, status.error());
}

void LoadWorker::LoadAll(const LoadBatch& batch) {
  if (batch.lines.empty()) return;
  if (shared_.Halted()) return NotLoaded(batch.lines.front().number);
  pairs_.clear();
  for (const LoadBatch::Line& line : batch.lines) {
    pairs_.push_back({batch.key(line), batch.value(line)});
  }
  const SortedLoad load = session_->LoadSorted(pairs_, *sorted_fill_);
  loaded_.store(loaded_.load(std::memory_order_relaxed) + load.loaded, std::memory_order_relaxed);
  if (!load.status) Failed(batch.lines[load.loaded].number, load.status.error());
}

void LoadWorker::Failed(uint64_t line, const Error& error) {
  shared_.halted.store(true, std::memory_order_relaxed);
  NotLoaded(line);
  if (!report_.error || line < report_.error->line) report_.error = LoadError{line, error};
}

bool LoadWorker::InFlight(uint64_t key_hash) const {
  return std::find(keys_in_flight_.begin(), keys_in_flight_.end(), key_hash) !=
         keys_in_flight_.end();
}

void LoadWorker::Leave(uint64_t key_hash) {
  const auto found = std::find(keys_in_flight_.begin(), keys_in_flight_.end(), key_hash);
  *found = keys_in_flight_.back();
  keys_in_flight_.pop_back();
}

void LoadWorker::NotLoaded(uint64_t line) {
  report_.first_not_loaded = std::min(report_.first_not_loaded, line);
}

}  // namespace gossamer::cli
