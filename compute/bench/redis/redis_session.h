// RedisSession: one thread's connections to a server of the Redis protocol. See redis_store.h.
//
// Hot path: a get or put takes no lock, and allocates nothing once buffers have grown (frames of coroutines come from their pool).
// The thread sleeps in poll(2) while it waits for answers.
//
// Thread-safety: none.
#pragma once

#include <poll.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compute/bench/redis/connection.h"
#include "compute/bench/redis/redis_store.h"
#include "compute/bench/redis/reply.h"
#include "gossamer/store.h"

namespace gossamer::bench {

class RedisSession : public Session {
 public:
  // The session for the protocol of `options`. Errors: those of Connection::Open.
  static Result<std::unique_ptr<RedisSession>> Open(const RedisOptions& options);
  ~RedisSession() override;

  // The answer to a command of which that is one text. Errors: Unsupported, with the server's error.
  Result<std::string> Ask(std::initializer_list<std::string_view> words);
  // What the server says it is: "Redis 7.0.15".
  virtual Result<std::string> Software();
  // Processor time that the server has used so far.
  virtual Result<double> CpuSeconds();
  // Whether the server has GOSSAMER.SCAN.
  virtual Result<bool> HasScans();

  Result<std::string> Get(std::string_view key) override { return Wait(AsyncGet(key)); }
  Status Put(std::string_view key, std::string_view value) override {
    return Wait(AsyncPut(key, value));
  }
  Status Insert(std::string_view key, std::string_view value) override;
  Status Update(std::string_view key, std::string_view value) override;
  Status Modify(std::string_view key, ValueModifier& modifier) override;
  Status Delete(std::string_view key) override;
  std::vector<Result<std::string>> MultiGet(std::span<const std::string_view> keys) override;
  void MultiGet(std::span<const std::string_view> keys, Values& values) override {
    Wait(AsyncMultiGet(keys, values));
  }
  std::vector<Status> MultiPut(std::span<const KeyValue> pairs) override;
  std::vector<Status> MultiDelete(std::span<const std::string_view> keys) override;
  void MultiPut(std::span<const KeyValueView> pairs, std::span<Status> results) override {
    Wait(AsyncMultiPut(pairs, results));
  }
  void MultiDelete(std::span<const std::string_view> keys, std::span<Status> results) override;
  void MultiModify(std::span<const KeyModifier> modifiers, std::span<Status> results) override;
  SortedLoad LoadSorted(std::span<const KeyValueView> pairs, double fill) override;
  std::unique_ptr<ScanCursor> Scan(const ScanOptions& options) override;
  RangeDeletion DeleteRange(const KeyRange& range,
                            const std::function<bool(uint64_t deleted)>& progress) override;

  Task<Result<std::string>> AsyncGet(std::string_view key) override;
  Task<Status> AsyncPut(std::string_view key, std::string_view value) override;
  Task<Status> AsyncInsert(std::string_view key, std::string_view value) override;
  Task<Status> AsyncUpdate(std::string_view key, std::string_view value) override;
  Task<Status> AsyncModify(std::string_view key, ValueModifier& modifier) override;
  Task<Status> AsyncDelete(std::string_view key) override;
  Task<void> AsyncMultiGet(std::span<const std::string_view> keys, Values& values) override;
  Task<void> AsyncMultiPut(std::span<const KeyValueView> pairs, std::span<Status> results) override;
  Task<void> AsyncMultiDelete(std::span<const std::string_view> keys,
                              std::span<Status> results) override;
  Task<void> AsyncMultiModify(std::span<const KeyModifier> modifiers,
                              std::span<Status> results) override;
  Task<SortedLoad> AsyncLoadSorted(std::span<const KeyValueView> pairs, double fill) override;
  Task<RangeDeletion> AsyncDeleteRange(KeyRange range,
                                       std::function<bool(uint64_t deleted)> progress) override;

  void Spawn(Task<void> task) override;
  size_t Poll() override;
  void WaitAll() override;

  Counters counters() const override { return counters_; }

 protected:
  explicit RedisSession(const RedisOptions& options, Connection::FindEnd find_end = FindReplyEnd)
      : find_end_(find_end), most_in_flight_(options.pipeline) {}

  // The connection for the next request.
  Connection& Choose();
  // Counts a request with so many bytes of keys and values, and its reply, for `operations` operations.
  void Count(OperationClass operation, uint64_t operations, uint64_t request_bytes,
             std::string_view reply);
  template <typename T>
  T Wait(Task<T> task) {
    std::optional<T> result;
    Spawn([](Task<T> one, std::optional<T>& to) -> Task<void> {
      to.emplace(co_await std::move(one));
    }(std::move(task), result));
    while (!result) Round(-1);
    return std::move(*result);
  }
  void Wait(Task<void> task);

 private:
  friend class RedisCursor;

  // The error of an answer; nullopt if it is none.
  std::optional<Error> ErrorOf(const Connection& connection, std::string_view reply) const;
  // Sends what is to be sent, and reads what has arrived, for which it waits up to `timeout_ms` (-1: as long as it takes).
  void Round(int timeout_ms);
  internal::Detached Drive(Task<void> task);

  const Connection::FindEnd find_end_;
  const size_t most_in_flight_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<pollfd> polled_;  // of `connections_`
  size_t current_ = 0;          // the one that is answering, or was chosen last
  size_t running_ = 0;          // spawned tasks
  Counters counters_;
};

}  // namespace gossamer::bench
