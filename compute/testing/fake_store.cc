#include "compute/testing/fake_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <coroutine>
#include <random>
#include <set>
#include <utility>

#include "proto/key.h"

namespace gossamer {
namespace {

using State = FakeStore::State;

class FakeSession final : public Session {
 public:
  FakeSession(State& state, uint64_t seed) : state_(state), random_(seed) {}

  Task<Result<std::string>> AsyncGet(std::string_view key) override {
    co_await Later();
    co_return Read(key);
  }
  Task<Result<ExpiringValue>> AsyncGetWithExpiry(std::string_view key) override {
    co_await Later();
    BOOST_OUTCOME_CO_TRY(value, Read(key));
    co_return ExpiringValue{std::move(value), ExpiryOf(key)};
  }
  using Session::AsyncInsert, Session::AsyncPut, Session::AsyncUpdate;
  uint64_t StoreTimeMs() const override { return state_.time_ms; }
  Task<Status> AsyncPut(std::string_view key, std::string_view value, Expiry expiry) override {
    if (!writing_.insert(std::string(key)).second) state_.overlapping_writes = true;
    co_await Later();
    writing_.erase(std::string(key));
    co_return Write(key, value, expiry, true, true);
  }
  Task<Status> AsyncInsert(std::string_view key, std::string_view value, Expiry expiry) override {
    co_await Later();
    co_return Write(key, value, expiry, true, false);
  }
  Task<Status> AsyncUpdate(std::string_view key, std::string_view value, Expiry expiry) override {
    co_await Later();
    co_return Write(key, value, expiry, false, true);
  }
  Task<Status> AsyncModify(std::string_view key, ValueModifier& modifier) override {
    co_await Later();
    co_return Change(key, modifier);
  }
  Task<Status> AsyncDelete(std::string_view key) override {
    co_await Later();
    co_return Erase(key);
  }
  Task<void> AsyncMultiGet(std::span<const std::string_view> keys, Values& values) override {
    co_await Later();
    values.Reset(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) values.Set(i, Read(keys[i]), ExpiryOf(keys[i]));
  }
  Task<void> AsyncMultiPut(std::span<const KeyValueView> pairs,
                           std::span<Status> results) override {
    co_await Later();
    for (size_t i = 0; i < pairs.size(); ++i) {
      results[i] = Write(pairs[i].key, pairs[i].value, pairs[i].expiry, true, true);
    }
  }
  Task<void> AsyncMultiDelete(std::span<const std::string_view> keys,
                              std::span<Status> results) override {
    co_await Later();
    for (size_t i = 0; i < keys.size(); ++i) results[i] = Erase(keys[i]);
  }
  Task<void> AsyncMultiModify(std::span<const KeyModifier> modifiers,
                              std::span<Status> results) override {
    co_await Later();
    for (size_t i = 0; i < modifiers.size(); ++i) {
      results[i] = Change(modifiers[i].key, *modifiers[i].modifier);
    }
  }
  Task<SortedLoad> AsyncLoadSorted(std::span<const KeyValueView> pairs, double /*fill*/) override {
    co_await Later();
    {
      const std::lock_guard lock(state_.mutex);
      state_.loaded_sorted += pairs.size();
    }
    for (size_t i = 1; i < pairs.size(); ++i) {
      if (pairs[i].key < pairs[i - 1].key) {
        co_return SortedLoad{0, MakeError(Code::kInvalidArgument, "not sorted")};
      }
    }
    for (size_t i = 0; i < pairs.size(); ++i) {
      Status put = Write(pairs[i].key, pairs[i].value, pairs[i].expiry, true, true);
      if (!put) co_return SortedLoad{i, std::move(put), i};
    }
    co_return SortedLoad{pairs.size(), Ok(), pairs.size()};
  }
  Task<RangeDeletion> AsyncDeleteRange(KeyRange range,
                                       std::function<bool(uint64_t deleted)> progress) override;
  Task<RangeDeletion> AsyncDeleteExpired(std::function<bool(uint64_t)> /*progress*/) override {
    co_await Later();
    const std::lock_guard lock(state_.mutex);
    state_.DropExpired();
    co_return RangeDeletion();
  }
  // Of up to kDrawn keys, drawn one by one.
  Task<Result<EvictedKeys>> AsyncEvict(EvictionChoice& choice) override;
  Task<Result<MemoryLevel>> AsyncMemoryLevel() override {
    co_await Later();
    const std::lock_guard lock(state_.mutex);
    if (Fails()) co_return *state_.fail_with;
    const uint64_t used = state_.map.size() * FakeStore::kKeyBytes;
    co_return MemoryLevel{state_.key_memory, state_.key_memory - std::min(used, state_.key_memory),
                          0};
  }
  Task<void> AsyncGiveBackMemory() override { co_return; }
  Task<void> AsyncSleep(std::chrono::microseconds /*time*/) override { co_await Later(); }
  std::unique_ptr<ScanCursor> Scan(const ScanOptions& options) override;

  void Spawn(Task<void> task) override {
    ++running_;
    Drive(std::move(task));
  }
  // Lets one waiting operation go on.
  size_t Poll() override {
    if (waiting_.empty()) return running_;
    {
      const std::lock_guard lock(state_.mutex);
      state_.most_in_flight = std::max(state_.most_in_flight, waiting_.size());
    }
    std::swap(waiting_[random_() % waiting_.size()], waiting_.back());
    const std::coroutine_handle<> waiter = waiting_.back();
    waiting_.pop_back();
    waiter.resume();
    return running_;
  }
  void WaitAll() override {
    while (Poll() > 0) {
    }
  }

  Counters counters() const override {
    Counters counters = counters_;
    counters.cache.bytes = 4096;
    return counters;
  }

 private:
  friend class FakeCursor;

  struct Suspension {
    FakeSession& session;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) { session.waiting_.push_back(waiter); }
    void await_resume() const noexcept {}
  };
  Suspension Later() { return {*this}; }

  internal::Detached Drive(Task<void> task) {
    co_await task;
    --running_;
  }
  void RunUntilDone(std::coroutine_handle<> task) override {
    task.resume();
    while (!task.done()) Poll();
  }
  WireCounts& Count(OperationClass operation) {
    WireCounts& wire = counters_.of(operation);
    ++wire.operations;
    ++wire.round_trips;
    ++counters_.cache.hits;
    return wire;
  }
  bool Fails() {
    if (!state_.fail_with) return false;
    return state_.fail_interval == 0 || ++operations_ % state_.fail_interval == 0;
  }

  Result<std::string> Read(std::string_view key) {
    WireCounts& wire = Count(OperationClass::kRead);
    ++wire.reads;
    wire.bytes_read += FakeStore::kBytes;
    const std::lock_guard lock(state_.mutex);
    if (Fails()) return *state_.fail_with;
    state_.DropExpired();
    const auto found = state_.map.find(key);
    if (found == state_.map.end()) return MakeError(Code::kNotFound);
    return found->second;
  }
  Expiry ExpiryOf(std::string_view key) {
    const std::lock_guard lock(state_.mutex);
    const auto found = state_.expires_at.find(key);
    return Expiry::FromStored(found == state_.expires_at.end() ? 0 : found->second);
  }
  // Of a key that is there.
  void SetExpiry(std::string_view key, Expiry expiry) {
    const auto found = state_.expires_at.find(key);
    const uint64_t before = found == state_.expires_at.end() ? 0 : found->second;
    const uint64_t after = expiry.Resolve([this] { return state_.time_ms.load(); }, before);
    if (found != state_.expires_at.end()) state_.expires_at.erase(found);
    if (after != 0) state_.expires_at.emplace(key, after);
  }
  Status Write(std::string_view key, std::string_view value, Expiry expiry, bool insert,
               bool update) {
    const std::lock_guard lock(state_.mutex);
    if (Fails()) return *state_.fail_with;
    state_.DropExpired();
    if (key.size() > state_.parameters.max_key_bytes) {
      return MakeError(Code::kInvalidArgument, fmt::format("key of {} B", key.size()));
    }
    const bool exists = state_.map.contains(key);
    if (exists && !update) return MakeError(Code::kAlreadyExists);
    if (!exists && !insert) return MakeError(Code::kNotFound);
    const uint64_t room =
        state_.key_memory == 0 ? state_.max_keys : state_.key_memory / FakeStore::kKeyBytes;
    if (!exists && state_.map.size() >= room) {
      return MakeError(Code::kExhausted, "1 server, 0 of 64 chunks free");
    }
    state_.map.insert_or_assign(std::string(key), value);
    SetExpiry(key, expiry);
    WireCounts& wire = Count(exists ? OperationClass::kUpdate : OperationClass::kInsert);
    ++wire.writes;
    wire.bytes_written += FakeStore::kBytes;
    ++counters_.locks.acquired;
    ++state_.puts;
    if (state_.after_put) state_.after_put(state_.puts);
    return Ok();
  }
  Status Change(std::string_view key, ValueModifier& modifier) {
    const std::lock_guard lock(state_.mutex);
    if (Fails()) return *state_.fail_with;
    state_.DropExpired();
    const auto found = state_.map.find(key);
    const bool is_there = found != state_.map.end();
    std::optional<std::string_view> value;
    if (is_there) {
      // Short ones are in the leaf.
      const bool is_inline = found->second.size() <= state_.parameters.inline_value_bytes;
      value = modifier.wants_value() || is_inline ? std::string_view(found->second) : "";
    }
    const auto expires_at = state_.expires_at.find(key);
    const ValueModifier::Change change = modifier.Modify(
        value, Expiry::FromStored(expires_at == state_.expires_at.end() ? 0 : expires_at->second));
    switch (change.kind) {
      case ValueModifier::Kind::kPut:
        state_.map[std::string(key)] = std::string(change.value);
        SetExpiry(key, change.expiry);
        break;
      case ValueModifier::Kind::kTouch:
        if (is_there && !change.expiry.keeps()) SetExpiry(key, change.expiry);
        break;
      case ValueModifier::Kind::kDelete:
        if (is_there) state_.Erase(found);
        break;
      case ValueModifier::Kind::kKeep: break;
    }
    return Ok();
  }
  Status Erase(std::string_view key) {
    const std::lock_guard lock(state_.mutex);
    if (Fails()) return *state_.fail_with;
    state_.DropExpired();
    const auto found = state_.map.find(key);
    if (found == state_.map.end()) return MakeError(Code::kNotFound);
    state_.Erase(found);
    return Ok();
  }

  State& state_;
  std::mt19937_64 random_;
  Counters counters_;
  uint64_t operations_ = 0;
  size_t running_ = 0;
  std::vector<std::coroutine_handle<>> waiting_;
  std::set<std::string> writing_;
};

// A cursor over a snapshot of the store at its opening. If everything fails, it fails half-way.
class FakeCursor final : public ScanCursor {
 public:
  FakeCursor(FakeSession& session, const ScanOptions& options)
      : session_(session),
        keys_only_(options.keys_only),
        is_endless_(session.state_.endless_scans &&
                    options.limit == std::numeric_limits<uint64_t>::max()) {
    WireCounts& wire = session_.Count(OperationClass::kScan);
    ++wire.reads;
    wire.bytes_read += FakeStore::kBytes;
    State& state = session_.state_;
    const std::lock_guard lock(state.mutex);
    state.DropExpired();
    std::string from = options.from;
    if (options.resume_at != 0) from = std::max(from, state.bookmarks.at(options.resume_at - 1));
    for (auto found = state.map.lower_bound(from); found != state.map.end(); ++found) {
      const auto& [key, value] = *found;
      if (options.to && key >= *options.to) break;
      if (!options.reverse && found_.size() == options.limit) {
        if (options.to_bookmark) {
          state.bookmarks.push_back(key);
          bookmark_ = {state.bookmarks.size(), key};
        }
        break;
      }
      if (!key.starts_with(options.prefix)) continue;
      const auto expires_at = state.expires_at.find(key);
      const bool expires = expires_at != state.expires_at.end();
      found_.push_back({key, value, Expiry::FromStored(expires ? expires_at->second : 0)});
    }
    if (options.reverse) std::ranges::reverse(found_);
    if (found_.size() > options.limit) found_.resize(options.limit);
    if (options.salvage) missing_ = state.missing;
  }

  const Status& status() const override { return status_; }
  std::span<const MissingKeys> missing() const override { return missing_; }
  std::optional<ScanBookmark> bookmark() const override { return bookmark_; }
  std::span<const KeyValue> found() const { return found_; }

 private:
  // One key at a time, so that a coroutine waits for each.
  void Refill() override {
    SetEntries({}, nullptr);
    const State& state = session_.state_;
    if (state.fail_with && state.fail_interval == 0 && next_ == found_.size() / 2) {
      status_ = *state.fail_with;
      return;
    }
    if (next_ == found_.size() && is_endless_) next_ = 0;
    if (next_ == found_.size()) return;
    const KeyValue& pair = found_[next_++];
    value_ = keys_only_ ? std::string_view() : std::string_view(pair.value);
    expires_at_ = pair.expiry.stored();
    entry_ = {pair.key.data(), 0, static_cast<uint8_t>(pair.key.size()), ScanEntry::Kind::kAway,
              uint8_t{expires_at_ != 0}};
    SetEntries({&entry_, 1}, &value_, &expires_at_);
  }
  Task<void> AsyncRefill() override {
    if (!is_endless_) co_await session_.Later();
    Refill();
  }

  FakeSession& session_;
  const bool keys_only_;
  const bool is_endless_;
  std::vector<KeyValue> found_;
  std::vector<MissingKeys> missing_;
  std::optional<ScanBookmark> bookmark_;
  size_t next_ = 0;
  ScanEntry entry_;
  std::string_view value_;
  uint64_t expires_at_ = 0;
  Status status_ = Ok();
};

Task<Result<EvictedKeys>> FakeSession::AsyncEvict(EvictionChoice& choice) {
  constexpr size_t kDrawn = 100;
  co_await Later();
  const std::lock_guard lock(state_.mutex);
  if (Fails()) co_return *state_.fail_with;
  state_.DropExpired();
  std::vector<std::string> keys;
  for (const auto& [key, value] : state_.map) {
    if (choice.MayGo(key)) keys.push_back(key);
  }
  std::ranges::shuffle(keys, random_);
  keys.resize(std::min(keys.size(), kDrawn));
  std::vector<EvictionCandidate> candidates;
  const auto expiry_of = [this](const std::string& key) {
    const auto found = state_.expires_at.find(key);
    return Expiry::FromStored(found == state_.expires_at.end() ? 0 : found->second);
  };
  for (const std::string& key : keys) {
    candidates.push_back({KeyHash(key), expiry_of(key), FakeStore::kKeyBytes, 0});
  }
  choice.Choose(candidates);
  EvictedKeys evicted;
  evicted.candidates = keys.size();
  evicted.keys_in_store = static_cast<double>(state_.map.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!candidates[i].goes || !choice.StillGoes(KeyHash(keys[i]), expiry_of(keys[i]))) continue;
    state_.Erase(state_.map.find(keys[i]));
    ++evicted.deleted;
    evicted.bytes += FakeStore::kKeyBytes;
  }
  co_return evicted;
}

std::unique_ptr<ScanCursor> FakeSession::Scan(const ScanOptions& options) {
  return std::make_unique<FakeCursor>(*this, options);
}

Task<RangeDeletion> FakeSession::AsyncDeleteRange(KeyRange range,
                                                  std::function<bool(uint64_t deleted)> progress) {
  co_await Later();
  RangeDeletion done;
  const FakeCursor found(*this, {.from = range.from, .to = range.to, .prefix = range.prefix});
  for (const KeyValue& pair : found.found()) {
    done.status = Erase(pair.key);
    if (!done.status) break;
    ++done.deleted;
    if (progress && !progress(done.deleted)) break;
  }
  co_return done;
}

}  // namespace

Result<std::unique_ptr<Session>> FakeStore::NewSession() {
  if (state_.refuse_sessions) return MakeError(Code::kNodeUnreachable, "as the test asked");
  const std::lock_guard lock(state_.mutex);
  return std::unique_ptr<Session>(std::make_unique<FakeSession>(state_, state_.seed++));
}

Result<StoreStat> FakeStore::Stat() {
  if (state_.fail_with) return *state_.fail_with;
  StoreStat stat;
  stat.store = "default";
  stat.store_id = 0x1234;
  stat.fabric = "shm";
  stat.parameters = state_.parameters;
  stat.levels = 3;
  for (uint16_t id = 0; id < 2; ++id) {
    stat.servers.push_back({.server_id = id,
                            .address = fmt::format("shm:/fake/{}", id),
                            .heap_bytes = state_.memory.heap_bytes,
                            .free_bytes = state_.memory.free_bytes,
                            .node_extent_bytes = uint64_t{192} << 20,
                            .block_extent_bytes = uint64_t{64} << 20,
                            .compute_servers = 1,
                            .locks_on_chip = false,
                            .lock_table_bytes = 256 << 10,
                            .lock_table_why = {},
                            .unreachable = {}});
  }
  return stat;
}

Result<StoreUse> FakeStore::MeasureMemory(const std::function<void(uint64_t nodes)>& progress) {
  if (state_.fail_with) return *state_.fail_with;
  if (progress) progress(1);
  return StoreUse{{{0, state_.memory}, {1, state_.memory}}, state_.map.size(), true};
}

Result<std::optional<SweepReport>> FakeStore::SweepIfNeeded(
    const std::function<bool(const SweepProgress&)>& progress) {
  if (state_.others_sweep) ++state_.refused_sweeps;
  if (!state_.needs_sweep || state_.others_sweep) return std::optional<SweepReport>();
  BOOST_OUTCOME_TRY(report, Sweep(progress));
  if (!report.was_stopped) state_.needs_sweep = false;
  return std::optional(std::move(report));
}

Result<SweepReport> FakeStore::Sweep(const std::function<bool(const SweepProgress&)>& progress) {
  if (state_.fail_with) return *state_.fail_with;
  SweepReport report;
  do {
    if (progress && !progress({SweepProgress::Step::kTree, 1, ""})) {
      report.was_stopped = true;
      return report;
    }
  } while (state_.endless_sweeps);
  report.servers = {{0, {4096, 0}}, {2, {0, 64}}};
  return report;
}

Result<RepairReport> FakeStore::Repair(bool, const std::function<bool(uint64_t)>& progress) {
  if (state_.fail_with) return *state_.fail_with;
  RepairReport report;
  report.was_stopped = progress && !progress(1);
  if (state_.problems.empty()) return report;
  report.lost_servers = {1, 3};
  report.ranges = {{"a", "b"}, {"x", std::nullopt}};
  report.lost_leaves = 2;
  report.lost_keys = 70;
  report.lost_values = 1;
  report.lost_bytes = 4096;
  report.keys = 1000;
  return report;
}

Result<CheckReport> FakeStore::Check(const std::function<void(uint64_t leaves)>& progress) {
  if (state_.fail_with) return *state_.fail_with;
  if (progress) progress(1);
  CheckReport report;
  report.keys = state_.map.size();
  report.leaves = report.keys / 35 + 1;
  report.levels = 3;
  report.internal_nodes = 3;
  report.nodes_per_server = {{0, report.leaves}, {2, 3}};
  report.memory = {{0, {1 << 20, 600'000, 400'000, 20'000, 10'000, 18'576}}};
  report.leaf_bytes_per_key = 29.25;
  report.locks_held = state_.locks_held;
  report.problems = state_.problems;
  report.problem_count = state_.problems.size();
  return report;
}

}  // namespace gossamer
