// RedisSession: one thread's connections to a server of the Redis protocol. See redis_store.h.
//
// Hot path: a get or put takes no lock, and allocates nothing once buffers have grown (frames of
// coroutines come from their pool). The thread sleeps in poll(2) while it waits for answers.
//
// Thread-safety: none.
#pragma once

#include <poll.h>

#include <coroutine>
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

class RedisSession : public PartialSession {
 public:
  // The session for the protocol of `options`. Errors: those of Connection::Open.
  static Result<std::unique_ptr<RedisSession>> Open(const RedisOptions& options);
  ~RedisSession() override;

  // What the server says it is: "Redis 7.0.15".
  virtual Result<std::string> Software();
  // Processor time that the server has used so far.
  virtual Result<double> CpuSeconds();
  // Whether the server has GOSSAMER.SCAN.
  virtual Result<bool> HasScans();

  std::unique_ptr<ScanCursor> Scan(const ScanOptions& options) override;

  Task<Result<std::string>> AsyncGet(std::string_view key) override;
  using PartialSession::AsyncPut;
  Task<Status> AsyncPut(std::string_view key, std::string_view value, Expiry expiry) override;
  Task<void> AsyncMultiGet(std::span<const std::string_view> keys, Values& values) override;
  Task<void> AsyncMultiPut(std::span<const KeyValueView> pairs, std::span<Status> results) override;

  void Spawn(Task<void> task) override;
  size_t Poll() override;
  void WaitAll() override;

  Counters counters() const override { return counters_; }

 protected:
  explicit RedisSession(const RedisOptions& options, Connection::FindEnd find_end = FindReplyEnd)
      : PartialSession(kRedisName), find_end_(find_end), most_in_flight_(options.pipeline) {}

  // Waits for the reply to what was added to `connection` last.
  Result<std::string> AwaitReply(Connection& connection);
  // The connection for the next request.
  Connection& Choose();
  // Counts a request with so many bytes of keys and values, and its reply, for `operations`
  // operations.
  void Count(OperationClass operation, uint64_t operations, uint64_t request_bytes,
             std::string_view reply);

 private:
  friend class RedisCursor;

  // The reply to a command. Errors: as of ErrorOf.
  Result<std::string> Ask(std::initializer_list<std::string_view> words);
  // The error of an answer; nullopt if it is none.
  std::optional<Error> ErrorOf(const Connection& connection, std::string_view reply) const;
  // Sends what is to be sent, and reads what has arrived, for which it waits up to `timeout_ms`
  // (-1: as long as it takes).
  void Round(int timeout_ms);
  internal::Detached Drive(Task<void> task);
  void RunUntilDone(std::coroutine_handle<> task) override;

  const Connection::FindEnd find_end_;
  const size_t most_in_flight_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<pollfd> polled_;  // of `connections_`
  size_t current_ = 0;          // the one that is answering, or was chosen last
  size_t running_ = 0;          // spawned tasks
  Counters counters_;
};

// Of memcached: gets and puts are Get and Set of the binary protocol; MultiGet and MultiPut are
// their quiet forms, with a Noop behind them.
std::unique_ptr<RedisSession> MakeMemcachedSession(const RedisOptions& options);

}  // namespace gossamer::bench
