#include "compute/bench/client.h"

#include <utility>
#include <vector>

namespace gossamer::bench {

BenchClient::BenchClient(Session& session, PhaseState& phase, const Share& share)
    : session_(session),
      phase_(phase),
      codec_(phase.options.keys),
      seed_(phase.options.seed),
      value_bytes_(phase.options.value_bytes),
      loading_(share.loading),
      remaining_(share.count),
      next_to_load_(share.first_id) {
  if (!loading_) {
    stream_.emplace(phase.options.workload, phase.options.theta, seed_, share.thread, phase.ids);
  }
}

bool BenchClient::Take(DrawnOperation& operation) {
  if (remaining_ == 0 || phase_.stop.load(std::memory_order_relaxed)) return false;
  --remaining_;
  operation =
      loading_ ? DrawnOperation{BenchOperation::kInsert, 0, NextIdToLoad()} : stream_->Next();
  return true;
}

uint64_t BenchClient::NextIdToLoad() {
  const uint64_t next = next_to_load_++;
  return phase_.load_ids.empty() ? next : phase_.load_ids[next];
}

uint64_t BenchClient::Lap(LatencyClass latency_class, uint64_t start) {
  const uint64_t now = phase_.clock.Now();
  Record(latency_class, start, now);
  return now;
}

void BenchClient::Succeed() {
  ++result_.operations;
  failures_in_a_row_ = 0;
  finished_.store(finished_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void BenchClient::Fail(const Error& error) {
  result_.errors.Add(error);
  finished_.store(finished_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (++failures_in_a_row_ == kFailuresToGiveUp) {
    phase_.gave_up.store(true);
    phase_.stop.store(true);
  }
}

template <typename T>
bool BenchClient::Check(const Result<T>& value) {
  if (value) return true;
  Fail(value.error());
  return false;
}

void BenchClient::AcknowledgeInsert(uint64_t id) {
  if (!loading_) phase_.ids.Acknowledge(id);
}

ScanOptions BenchClient::ScanFrom(const DrawnOperation& operation, KeyBuffer& buffer) const {
  ScanOptions options;
  options.from = codec_.Encode(operation.id, buffer);
  options.limit = operation.scan_length;
  return options;
}

// The first key of a scan exists, so a scan without keys is as wrong as a failed one.
bool BenchClient::FinishScan(const ScanCursor& cursor, uint64_t keys) {
  if (!Check(cursor.status())) return false;
  if (keys == 0) {
    Fail(MakeError(Code::kNotFound, "a scan that starts at an existing key returned no key"));
    return false;
  }
  result_.scanned_keys += keys;
  return true;
}

Task<void> BenchClient::Work() {
  KeyBuffer buffer;
  std::string value(value_bytes_, '\0');
  DrawnOperation operation;
  uint64_t now = phase_.clock.Now();
  while (Take(operation)) {
    const uint64_t start = now;
    const std::string_view key = codec_.Encode(operation.id, buffer);
    std::optional<LatencyClass> done;
    switch (operation.kind) {
      case BenchOperation::kRead:
        if (Check(co_await session_.AsyncGet(key))) done = LatencyClass::kRead;
        break;
      case BenchOperation::kUpdate:
      case BenchOperation::kInsert:
        FillValue(operation.id, seed_, value);
        if (!Check(co_await session_.AsyncPut(key, value))) break;
        done = operation.kind == BenchOperation::kInsert ? LatencyClass::kInsert
                                                         : LatencyClass::kUpdate;
        if (done == LatencyClass::kInsert) AcknowledgeInsert(operation.id);
        break;
      case BenchOperation::kReadModifyWrite:
        if (!Check(co_await session_.AsyncGet(key))) break;
        now = Lap(LatencyClass::kRead, start);
        FillValue(operation.id, seed_, value);
        if (!Check(co_await session_.AsyncPut(key, value))) break;
        now = Lap(LatencyClass::kUpdate, now);
        Record(LatencyClass::kReadModifyWrite, start, now);
        Succeed();
        continue;
      case BenchOperation::kScan: {
        const std::unique_ptr<ScanCursor> cursor = session_.Scan(ScanFrom(operation, buffer));
        uint64_t keys = 0;
        while (co_await cursor->AsyncNext()) ++keys;
        if (FinishScan(*cursor, keys)) done = LatencyClass::kScan;
        break;
      }
    }
    if (done) {
      now = Lap(*done, start);
      Succeed();
    } else {
      now = phase_.clock.Now();
    }
  }
}

// One batch, split by the session calls that run it.
struct BenchClient::Batch {
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

void BenchClient::WorkInBatches() {
  Batch batch(phase_.options.batch, value_bytes_);
  while (true) {
    Fill(batch);
    if (batch.count == 0) return;
    DoGets(batch);
    DoPuts(batch);
    DoScans(batch);
  }
}

void BenchClient::WorkSorted() {
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
      RecordMany(LatencyClass::kInsert, start, phase_.clock.Now(), load.loaded);
      for (size_t i = 0; i < load.loaded; ++i) Succeed();
      done += load.loaded;
      if (load.status) continue;
      Fail(load.status.error());
      ++done;
    }
  }
}

void BenchClient::Fill(Batch& batch) {
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

void BenchClient::DoGets(Batch& batch) {
  batch.gets_started = phase_.clock.Now();
  if (batch.gets.empty()) return;
  session_.MultiGet(batch.gets, batch.values);
  const uint64_t end = phase_.clock.Now();
  for (size_t i = 0; i < batch.values.size(); ++i) {
    if (!Check(batch.values[i])) continue;
    Record(LatencyClass::kRead, batch.gets_started, end);
    const size_t index = batch.get_operations[i];
    if (batch.operations[index].kind == BenchOperation::kReadModifyWrite) {
      batch.put_operations.push_back(index);
    } else {
      Succeed();
    }
  }
}

void BenchClient::DoPuts(Batch& batch) {
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
  RecordMany(LatencyClass::kInsert, start, end, inserts);
  RecordMany(LatencyClass::kUpdate, start, end, updates);
  RecordMany(LatencyClass::kReadModifyWrite, batch.gets_started, end, modified);
}

void BenchClient::DoScans(Batch& batch) {
  for (size_t i = 0; i < batch.count; ++i) {
    if (batch.operations[i].kind != BenchOperation::kScan) continue;
    const uint64_t start = phase_.clock.Now();
    const std::unique_ptr<ScanCursor> cursor =
        session_.Scan(ScanFrom(batch.operations[i], batch.buffers[i]));
    uint64_t keys = 0;
    while (cursor->Next()) ++keys;
    if (!FinishScan(*cursor, keys)) continue;
    Lap(LatencyClass::kScan, start);
    Succeed();
  }
}

}  // namespace gossamer::bench
