#include <algorithm>
#include <utility>
#include <vector>

#include "common/version.h"
#include "compute/research/baselines/baseline.h"
#include "gossamer/store.h"

namespace gossamer::bench {
namespace {

class Gossamer : public Baseline {
 public:
  Gossamer(std::unique_ptr<Store> store, std::unique_ptr<Session> session, size_t value_bytes)
      : store_(std::move(store)), session_(std::move(session)), value_bytes_(value_bytes) {}

  std::string version() const override { return std::string(BuildVersion()); }
  std::string description() const override {
    return "memory server and client in one process, `shm` fabric";
  }

  Status Put(std::span<const Pair> pairs) override {
    pairs_.clear();
    for (const Pair& pair : pairs) pairs_.push_back({pair.key, pair.value});
    statuses_.assign(pairs.size(), Ok());
    session_->MultiPut(pairs_, statuses_);
    const auto failed =
        std::ranges::find_if(statuses_, [](const Status& status) { return !status; });
    return failed == statuses_.end() ? Status(Ok()) : *failed;
  }
  Status Get(std::span<const std::string_view> keys) override {
    session_->MultiGet(keys, values_);
    for (size_t i = 0; i < keys.size(); ++i) {
      const Result<std::string_view> value = values_[i];
      found_ += value && value.value().size() == value_bytes_;
    }
    return Ok();
  }
  Result<uint64_t> Scan(std::string_view from, uint64_t length) override {
    ScanOptions options;
    options.from = from;
    options.limit = length;
    const std::unique_ptr<ScanCursor> cursor = session_->Scan(options);
    uint64_t count = 0;
    for (; cursor->Next(); ++count) See(cursor->key(), cursor->value());
    BOOST_OUTCOME_TRYV(cursor->status());
    return count;
  }

  Status Finish() override { return Ok(); }
  Result<double> CpuSeconds() override { return OwnCpuSeconds(); }
  uint64_t found() const override { return found_; }

 private:
  std::unique_ptr<Store> store_;
  std::unique_ptr<Session> session_;
  const size_t value_bytes_;
  std::vector<KeyValueView> pairs_;
  std::vector<Status> statuses_;
  Values values_;
  uint64_t found_ = 0;
};

}  // namespace

Result<std::unique_ptr<Baseline>> OpenGossamer(uint64_t memory_bytes, uint64_t key_bytes,
                                               uint64_t value_bytes) {
  LocalOptions options;
  options.memory_bytes = memory_bytes;
  options.parameters.max_key_bytes = static_cast<uint16_t>(key_bytes);
  if (value_bytes <= kMaxInlineValueBytes) {
    options.parameters.inline_value_bytes = static_cast<uint16_t>(value_bytes);
  }
  BOOST_OUTCOME_TRY(store, Store::OpenLocal(options));
  BOOST_OUTCOME_TRY(session, store->NewSession());
  return std::unique_ptr<Baseline>(
      std::make_unique<Gossamer>(std::move(store), std::move(session), value_bytes));
}

}  // namespace gossamer::bench
