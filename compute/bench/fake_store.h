// A store in a std::map, for tests of the bench: quick, exact, with failures on request.
//
// Asynchronous operations suspend once, so that those of many coroutines overlap as on a real
// fabric. Each is counted as one round trip and one READ or WRITE of 100 bytes. Thread-safety: as a
// Store's.
#pragma once

#include <atomic>
#include <coroutine>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/store.h"

namespace gossamer::bench {

class FakeStore : public Store {
 public:
  static constexpr uint64_t kBytes = 100;

  // Every `interval`-th operation of a session fails with `code`; 0: none does.
  void FailEvery(uint64_t interval, Code code) {
    fail_interval_ = interval;
    fail_code_ = code;
  }
  void RefuseSessions() { refuse_sessions_ = true; }

  Result<std::unique_ptr<Session>> NewSession() override;
  const StoreParameters& parameters() const override { return parameters_; }
  Result<StoreStat> Stat() override { return StoreStat{}; }
  Result<CheckReport> Check(const std::function<void(uint64_t)>&) override { return CheckReport{}; }

  std::map<std::string, std::string, std::less<>> Contents() {
    const std::lock_guard lock(mutex_);
    return pairs_;
  }
  // The most operations that any session had in flight.
  uint64_t most_in_flight() const { return most_in_flight_; }

 private:
  friend class FakeSession;
  friend class FakeCursor;

  StoreParameters parameters_;
  uint64_t fail_interval_ = 0;
  Code fail_code_ = Code::kContended;
  bool refuse_sessions_ = false;
  std::mutex mutex_;
  std::map<std::string, std::string, std::less<>> pairs_;  // guarded by mutex_
  std::atomic<uint64_t> most_in_flight_{0};
  std::atomic<uint64_t> hits_{0};
};

class FakeSession : public Session {
 private:
  struct Suspension {
    FakeSession& session;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) { session.waiters_.push_back(waiter); }
    void await_resume() const noexcept {}
  };
  Suspension Suspend() { return {*this}; }

 public:
  explicit FakeSession(FakeStore& store) : store_(store) {}

  Result<std::string> Get(std::string_view key) override {
    WireCounts& wire = Count(OperationClass::kRead);
    ++wire.reads;
    wire.bytes_read += FakeStore::kBytes;
    if (Fails()) return MakeError(store_.fail_code_, "as the test asked");
    const std::lock_guard lock(store_.mutex_);
    const auto found = store_.pairs_.find(key);
    if (found == store_.pairs_.end()) return MakeError(Code::kNotFound);
    return found->second;
  }
  Status Put(std::string_view key, std::string_view value) override {
    if (Fails()) return MakeError(store_.fail_code_, "as the test asked");
    const std::lock_guard lock(store_.mutex_);
    const auto [place, is_new] = store_.pairs_.insert_or_assign(std::string(key), value);
    WireCounts& wire = Count(is_new ? OperationClass::kInsert : OperationClass::kUpdate);
    ++wire.writes;
    wire.bytes_written += FakeStore::kBytes;
    ++counters_.locks.acquired;
    return Ok();
  }
  Status Insert(std::string_view key, std::string_view value) override { return Put(key, value); }
  Status Update(std::string_view key, std::string_view value) override { return Put(key, value); }
  Status Delete(std::string_view key) override {
    const std::lock_guard lock(store_.mutex_);
    const auto found = store_.pairs_.find(key);
    if (found == store_.pairs_.end()) return MakeError(Code::kNotFound);
    store_.pairs_.erase(found);
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
  std::unique_ptr<ScanCursor> Scan(const ScanOptions& options) override;

  Task<Result<std::string>> AsyncGet(std::string_view key) override {
    co_await Suspend();
    co_return Get(key);
  }
  Task<Status> AsyncPut(std::string_view key, std::string_view value) override {
    co_await Suspend();
    co_return Put(key, value);
  }
  Task<Status> AsyncInsert(std::string_view key, std::string_view value) override {
    return AsyncPut(key, value);
  }
  Task<Status> AsyncUpdate(std::string_view key, std::string_view value) override {
    return AsyncPut(key, value);
  }
  Task<Status> AsyncDelete(std::string_view key) override {
    co_await Suspend();
    co_return Delete(key);
  }

  void Spawn(Task<void> task) override {
    ++running_;
    Drive(std::move(task));
  }
  size_t Poll() override {
    uint64_t most = store_.most_in_flight_.load();
    while (waiters_.size() > most &&
           !store_.most_in_flight_.compare_exchange_weak(most, waiters_.size())) {
    }
    for (const std::coroutine_handle<> waiter : std::exchange(waiters_, {})) waiter.resume();
    return running_;
  }
  void WaitAll() override {
    while (running_ > 0) Poll();
  }

  Counters counters() const override {
    Counters counters = counters_;
    counters.cache.hits = store_.hits_;
    counters.cache.bytes = 4096;
    return counters;
  }

 private:
  friend class FakeCursor;

  internal::Detached Drive(Task<void> task) {
    co_await task;
    --running_;
  }
  WireCounts& Count(OperationClass operation) {
    WireCounts& wire = counters_.of(operation);
    ++wire.operations;
    ++wire.round_trips;
    ++store_.hits_;
    return wire;
  }
  bool Fails() { return store_.fail_interval_ != 0 && ++operations_ % store_.fail_interval_ == 0; }

  FakeStore& store_;
  Counters counters_;
  uint64_t operations_ = 0;
  size_t running_ = 0;
  std::vector<std::coroutine_handle<>> waiters_;
};

// Ascending only, and without prefix: what the bench asks for.
class FakeCursor : public ScanCursor {
 public:
  FakeCursor(FakeSession& session, const ScanOptions& options)
      : session_(session), next_(options.from), left_(options.limit) {
    WireCounts& wire = session_.Count(OperationClass::kScan);
    ++wire.reads;
    wire.bytes_read += FakeStore::kBytes;
  }

  bool Next() override {
    if (left_ == 0) return false;
    const std::lock_guard lock(session_.store_.mutex_);
    const auto found = session_.store_.pairs_.lower_bound(next_);
    if (found == session_.store_.pairs_.end()) return false;
    --left_;
    key_ = found->first;
    value_ = found->second;
    next_ = key_ + '\0';
    return true;
  }
  Task<bool> AsyncNext() override {
    co_await session_.Suspend();
    co_return Next();
  }
  std::string_view key() const override { return key_; }
  std::string_view value() const override { return value_; }
  const Status& status() const override { return status_; }

 private:
  FakeSession& session_;
  std::string next_;
  uint64_t left_;
  std::string key_;
  std::string value_;
  Status status_ = Ok();
};

inline std::unique_ptr<ScanCursor> FakeSession::Scan(const ScanOptions& options) {
  return std::make_unique<FakeCursor>(*this, options);
}

inline Result<std::unique_ptr<Session>> FakeStore::NewSession() {
  if (refuse_sessions_) return MakeError(Code::kNodeUnreachable, "as the test asked");
  return std::unique_ptr<Session>(std::make_unique<FakeSession>(*this));
}

}  // namespace gossamer::bench
