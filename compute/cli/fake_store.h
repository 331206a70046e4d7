// A store in this process's memory, for tests of what is written against `Store` and `Session`.
//
// Asynchronous operations take a random number of polls, so that they end in another order than
// they began: whoever relies on an order must wait. Checks that no two writes of one key overlap in
// a session. Thread-safety as in store.h.
#pragma once

#include <coroutine>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/store.h"

namespace gossamer::cli {

struct FakeStoreState {
  StoreParameters parameters;
  uint64_t max_keys = std::numeric_limits<uint64_t>::max();  // then Exhausted
  uint64_t seed = 1;
  std::optional<Error> fail_with;     // every operation from now on
  std::vector<std::string> problems;  // what Check finds
  std::function<void(uint64_t puts)> after_put;

  std::mutex mutex;
  std::map<std::string, std::string, std::less<>> map;
  uint64_t puts = 0;
  size_t most_in_flight = 0;
  bool overlapping_writes = false;
};

class FakeCursor : public ScanCursor {
 public:
  FakeCursor(FakeStoreState& state, ScanOptions options)
      : state_(state), options_(std::move(options)) {
    const std::lock_guard lock(state_.mutex);
    for (const auto& [key, value] : state_.map) {
      if (key < options_.from || (options_.to && key >= *options_.to)) continue;
      if (!key.starts_with(options_.prefix)) continue;
      found_.push_back({key, value});
    }
    if (options_.reverse) std::reverse(found_.begin(), found_.end());
    if (found_.size() > options_.limit) found_.resize(options_.limit);
  }

  bool Next() override {
    if (state_.fail_with && next_ == found_.size() / 2) {  // half-way
      status_ = *state_.fail_with;
      return false;
    }
    return next_++ < found_.size();
  }
  Task<bool> AsyncNext() override { co_return Next(); }
  std::string_view key() const override { return found_[next_ - 1].key; }
  std::string_view value() const override { return found_[next_ - 1].value; }
  const Status& status() const override { return status_; }

 private:
  FakeStoreState& state_;
  ScanOptions options_;
  std::vector<KeyValue> found_;
  size_t next_ = 0;
  Status status_ = Ok();
};

class FakeSession : public Session {
 public:
  explicit FakeSession(FakeStoreState& state) : state_(state), random_(state.seed++) {}

  Result<std::string> Get(std::string_view key) override {
    const std::lock_guard lock(state_.mutex);
    if (state_.fail_with) return *state_.fail_with;
    const auto found = state_.map.find(key);
    if (found == state_.map.end()) return MakeError(Code::kNotFound);
    return found->second;
  }
  Status Put(std::string_view key, std::string_view value) override {
    return Write(key, value, true, true);
  }
  Status Insert(std::string_view key, std::string_view value) override {
    return Write(key, value, true, false);
  }
  Status Update(std::string_view key, std::string_view value) override {
    return Write(key, value, false, true);
  }
  Status Delete(std::string_view key) override {
    const std::lock_guard lock(state_.mutex);
    if (state_.fail_with) return *state_.fail_with;
    const auto found = state_.map.find(key);
    if (found == state_.map.end()) return MakeError(Code::kNotFound);
    state_.map.erase(found);
    return Ok();
  }

  std::vector<Result<std::string>> MultiGet(std::span<const std::string_view> keys) override {
    std::vector<Result<std::string>> values;
    for (const std::string_view key : keys) values.push_back(Get(key));
    return values;
  }
  std::vector<Status> MultiPut(std::span<const KeyValue> pairs) override {
    std::vector<Status> statuses;
    for (const KeyValue& pair : pairs) statuses.push_back(Put(pair.key, pair.value));
    return statuses;
  }
  std::vector<Status> MultiDelete(std::span<const std::string_view> keys) override {
    std::vector<Status> statuses;
    for (const std::string_view key : keys) statuses.push_back(Delete(key));
    return statuses;
  }
  std::unique_ptr<ScanCursor> Scan(const ScanOptions& options) override {
    return std::make_unique<FakeCursor>(state_, options);
  }

  Task<Result<std::string>> AsyncGet(std::string_view key) override {
    co_await Later{*this};
    co_return Get(key);
  }
  Task<Status> AsyncPut(std::string_view key, std::string_view value) override {
    if (!writing_.insert(std::string(key)).second) state_.overlapping_writes = true;
    co_await Later{*this};
    writing_.erase(std::string(key));
    co_return Put(key, value);
  }
  Task<Status> AsyncInsert(std::string_view key, std::string_view value) override {
    co_await Later{*this};
    co_return Insert(key, value);
  }
  Task<Status> AsyncUpdate(std::string_view key, std::string_view value) override {
    co_await Later{*this};
    co_return Update(key, value);
  }
  Task<Status> AsyncDelete(std::string_view key) override {
    co_await Later{*this};
    co_return Delete(key);
  }

  void Spawn(Task<void> task) override {
    ++running_;
    {
      const std::lock_guard lock(state_.mutex);
      state_.most_in_flight = std::max(state_.most_in_flight, running_);
    }
    Drive(std::move(task));
  }
  size_t Poll() override {
    if (!waiting_.empty()) {
      std::swap(waiting_[random_() % waiting_.size()], waiting_.back());
      const std::coroutine_handle<> waiter = waiting_.back();
      waiting_.pop_back();
      waiter.resume();
    }
    return running_;
  }
  void WaitAll() override {
    while (Poll() > 0) {
    }
  }

  Counters counters() const override { return counters_; }

 private:
  struct Later {
    FakeSession& session;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) { session.waiting_.push_back(waiter); }
    void await_resume() const noexcept {}
  };

  internal::Detached Drive(Task<void> task) {
    co_await task;
    --running_;
  }

  Status Write(std::string_view key, std::string_view value, bool insert, bool update) {
    const std::lock_guard lock(state_.mutex);
    if (state_.fail_with) return *state_.fail_with;
    if (key.size() > state_.parameters.max_key_bytes) {
      return MakeError(Code::kInvalidArgument, "key of " + std::to_string(key.size()) + " B");
    }
    const auto found = state_.map.find(key);
    const bool exists = found != state_.map.end();
    if (exists && !update) return MakeError(Code::kAlreadyExists);
    if (!exists && !insert) return MakeError(Code::kNotFound);
    if (!exists && state_.map.size() >= state_.max_keys) {
      return MakeError(Code::kExhausted, "1 server, 0 of 64 chunks free");
    }
    ++counters_.of(exists ? OperationClass::kUpdate : OperationClass::kInsert).operations;
    if (exists) {
      found->second = value;
    } else {
      state_.map.emplace(key, value);
    }
    ++state_.puts;
    if (state_.after_put) state_.after_put(state_.puts);
    return Ok();
  }

  FakeStoreState& state_;
  std::mt19937_64 random_;
  std::vector<std::coroutine_handle<>> waiting_;
  std::set<std::string> writing_;
  size_t running_ = 0;
  Counters counters_;
};

class FakeStore : public Store {
 public:
  FakeStoreState& state() { return state_; }

  Result<std::unique_ptr<Session>> NewSession() override {
    return std::unique_ptr<Session>(std::make_unique<FakeSession>(state_));
  }
  const StoreParameters& parameters() const override { return state_.parameters; }
  Result<StoreStat> Stat() override {
    if (state_.fail_with) return *state_.fail_with;
    StoreStat stat;
    stat.store = "default";
    stat.store_id = 0x1234;
    stat.fabric = "shm";
    stat.parameters = state_.parameters;
    stat.levels = 3;
    for (uint16_t id = 0; id < 2; ++id) {
      stat.servers.push_back({.server_id = id,
                              .address = "shm:/fake/" + std::to_string(id),
                              .heap_bytes = uint64_t{1} << 30,
                              .free_bytes = uint64_t{3} << 28,
                              .node_extent_bytes = uint64_t{192} << 20,
                              .block_extent_bytes = uint64_t{64} << 20,
                              .compute_servers = 1,
                              .locks_on_chip = false});
    }
    return stat;
  }
  Result<CheckReport> Check(const std::function<void(uint64_t leaves)>& progress) override {
    if (state_.fail_with) return *state_.fail_with;
    if (progress) progress(1);
    CheckReport report;
    report.keys = state_.map.size();
    report.leaves = report.keys / 35 + 1;
    report.levels = 3;
    report.internal_nodes = 3;
    report.nodes_per_server = {report.leaves, 3};
    report.leaf_bytes_per_key = 29.25;
    report.problems = state_.problems;
    report.problem_count = state_.problems.size();
    return report;
  }

 private:
  FakeStoreState state_;
};

}  // namespace gossamer::cli
