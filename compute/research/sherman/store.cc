#include "compute/research/sherman/store.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <vector>

#include "common/fabric/fabric.h"
#include "common/fabric/open/open_port.h"
#include "common/random_id.h"

namespace gossamer::sherman {
namespace {

static_assert(std::endian::native == std::endian::little);

uint64_t WordOf(std::string_view bytes) {
  uint64_t word;
  std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

Result<Key> KeyOf(std::string_view key) {
  if (key.size() == kKeyBytes) return Key{__builtin_bswap64(WordOf(key))};
  return MakeError(Code::kInvalidArgument,
                   fmt::format("Sherman's client takes keys of {} bytes, and this one has {}",
                               kKeyBytes, key.size()));
}

Result<Value> ValueOf(std::string_view value) {
  if (value.size() == kValueBytes) return Value{WordOf(value)};
  return MakeError(Code::kInvalidArgument,
                   fmt::format("Sherman's client takes values of {} bytes, and this one has {}",
                               kValueBytes, value.size()));
}

}  // namespace

// ---- scans

class ShermanCursor final : public ScanCursor {
 public:
  ShermanCursor(ShermanSession& session, const ScanOptions& options)
      : session_(session), left_(options.limit), keys_only_(options.keys_only) {
    if (options.reverse || options.salvage || options.to_bookmark || options.resume_at != 0 ||
        !options.prefix.empty()) {
      status_ = session.Absent();
    }
    position_ = Bound(options.from.empty() ? std::string(kKeyBytes, '\0') : options.from);
    if (options.to) to_ = Bound(*options.to);
    if (!status_ || left_ == 0) position_.reset();
  }

  const Status& status() const override { return status_; }

 private:
  std::optional<Key> Bound(std::string_view key) {
    const Result<Key> bound = KeyOf(key);
    if (bound) return bound.value();
    if (status_) status_ = bound.error();
    return std::nullopt;
  }
  void Refill() override { session_.scheduler_.Run(AsyncRefill()); }
  // Leaves may be empty, and so may a part of the scan.
  Task<void> AsyncRefill() override {
    SetEntries({}, nullptr);
    pairs_.clear();
    while (pairs_.empty() && position_) {
      Tree& tree = session_.tree_;
      if (!has_begun_) ++tree.counters().of(OperationClass::kScan).operations;
      has_begun_ = true;
      const Result<std::optional<Key>> next = co_await tree.Scan(*position_, left_, pairs_);
      if (!next) {
        pairs_.clear();
        position_.reset();
        status_ = next.error();
        co_return;
      }
      position_ = next.value();
      Clip();
    }
    Show();
  }
  void Clip() {
    if (to_) {
      const auto end = std::ranges::lower_bound(pairs_, *to_, {}, &Pair::key);
      if (end != pairs_.end() || (position_ && *position_ >= *to_)) position_.reset();
      pairs_.erase(end, pairs_.end());
    }
    if (pairs_.size() > left_) pairs_.resize(left_);
    left_ -= pairs_.size();
    if (left_ == 0) position_.reset();
  }
  void Show() {
    bytes_.resize(pairs_.size());
    entries_.resize(pairs_.size());
    for (size_t i = 0; i < pairs_.size(); ++i) {
      bytes_[i] = {__builtin_bswap64(static_cast<uint64_t>(pairs_[i].key)),
                   static_cast<uint64_t>(pairs_[i].value)};
      entries_[i] = {.bytes = reinterpret_cast<const char*>(bytes_[i].data()),
                     .length = keys_only_ ? 0 : kValueBytes,
                     .key_bytes = kKeyBytes};
    }
    SetEntries(entries_, nullptr);
  }

  ShermanSession& session_;
  std::optional<Key> position_;  // nullopt: the range has ended
  std::optional<Key> to_;
  uint64_t left_;  // of the limit
  const bool keys_only_;
  bool has_begun_ = false;
  Status status_ = Ok();
  std::vector<Pair> pairs_;
  std::vector<std::array<uint64_t, 2>> bytes_;  // key, value: what the entries refer to
  std::vector<ScanEntry> entries_;
};

// ---- sessions

std::unique_ptr<ScanCursor> ShermanSession::Scan(const ScanOptions& options) {
  return std::make_unique<ShermanCursor>(*this, options);
}

Task<Result<std::string>> ShermanSession::AsyncGet(std::string_view key) {
  BOOST_OUTCOME_CO_TRY(own_key, KeyOf(key));
  BOOST_OUTCOME_CO_TRY(value, co_await tree_.Get(own_key));
  co_return std::string(reinterpret_cast<const char*>(&value), kValueBytes);
}

Task<Status> ShermanSession::Write(std::string_view key, std::string_view value,
                                   Condition condition) {
  BOOST_OUTCOME_CO_TRY(own_key, KeyOf(key));
  BOOST_OUTCOME_CO_TRY(own_value, ValueOf(value));
  co_return co_await tree_.Put(own_key, own_value, condition);
}

Task<Status> ShermanSession::AsyncDelete(std::string_view key) {
  BOOST_OUTCOME_CO_TRY(own_key, KeyOf(key));
  co_return co_await tree_.Delete(own_key);
}

Counters ShermanSession::counters() const {
  Counters counters = tree_.counters();
  counters.cache.bytes = server_.cache().bytes();
  return counters;
}

// ---- stores

Result<std::unique_ptr<ShermanStore>> ShermanStore::OpenOn(std::unique_ptr<ComputePort> port,
                                                           const StoreRecord& record,
                                                           const Design& design,
                                                           uint64_t cache_bytes) {
  std::unique_ptr<ShermanStore> store(new ShermanStore);
  BOOST_OUTCOME_TRY(server, ComputeServer::Open(std::move(port), record, design, cache_bytes));
  store->server_ = std::move(server);
  store->parameters_.max_key_bytes = kKeyBytes;
  store->parameters_.inline_value_bytes = kValueBytes;
  return store;
}

Result<std::unique_ptr<ShermanStore>> ShermanStore::OpenLocal(const LocalOptions& local,
                                                              const Design& design) {
  EmbeddedMemoryOptions options;
  options.memory_bytes = local.memory_bytes;
  options.touch = local.touch_memory;
  options.on_chip_locks = design.on_chip_locks ? OnChipLocks::kIfPossible : OnChipLocks::kNever;
  BOOST_OUTCOME_TRY(memory, StartEmbeddedMemory(options));
  StoreRecord record;
  record.store = "local";
  record.fabric = FabricKindName(FabricKind::kShm);
  record.servers.resize(1);
  record.servers[0].address = memory->address();
  ComputePortOptions port_options;
  port_options.client_uuid = RandomId();
  BOOST_OUTCOME_TRY(port, OpenComputePort(FabricKind::kShm, port_options));
  BOOST_OUTCOME_TRY(store, OpenOn(std::move(port), record, design, local.cache_bytes));
  store->memory_ = std::move(memory);
  return store;
}

Result<std::unique_ptr<Session>> ShermanStore::NewSession() {
  BOOST_OUTCOME_TRY(endpoint, server_->NewEndpoint());
  return std::unique_ptr<Session>(std::make_unique<ShermanSession>(*server_, std::move(endpoint)));
}

}  // namespace gossamer::sherman
