#include "compute/bench/redis/redis_session.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "compute/bench/redis/reply.h"

namespace gossamer::bench {
namespace {

// What the first word of an error of gossamer-compute says. Redis has OOM, too.
Code CodeOf(std::string_view line) {
  const std::string_view word = line.substr(0, line.find(' '));
  if (word == "OOM") return Code::kExhausted;
  if (word == "TRYAGAIN") return Code::kContended;
  if (word == "UNREACHABLE") return Code::kNodeUnreachable;
  if (word == "MAYBEAPPLIED") return Code::kMaybeApplied;
  if (word == "CORRUPT") return Code::kCorruption;
  return Code::kUnsupported;
}

Error Unexpected(std::string_view reply) {
  constexpr size_t kMostQuoted = 60;
  return MakeError(Code::kUnsupported,
                   "the server answered " + std::string(reply.substr(0, kMostQuoted)));
}

// A field of an INFO reply; "" if it has none of that name.
std::string Field(const std::string& info, const std::string& name) {
  const size_t at = info.find("\n" + name + ":");
  if (at == std::string::npos) return {};
  const size_t begin = at + name.size() + 2;
  return info.substr(begin, info.find_first_of("\r\n", begin) - begin);
}

}  // namespace

// The keys and values of one GOSSAMER.SCAN.
class RedisCursor final : public ScanCursor {
 public:
  RedisCursor(RedisSession& session, const ScanOptions& options)
      : session_(session), options_(options) {}

  const Status& status() const override { return status_; }

 private:
  void Refill() override { session_.RunToEnd(AsyncRefill()); }
  Task<void> AsyncRefill() override;

  RedisSession& session_;
  const ScanOptions options_;
  bool has_begun_ = false;
  Status status_ = Ok();
  std::string bytes_;                     // the reply
  std::vector<ScanEntry> entries_;        // with keys in `bytes_`
  std::vector<std::string_view> values_;  // of `entries_`, in `bytes_`
};

Task<void> RedisCursor::AsyncRefill() {
  SetEntries({}, nullptr);
  if (std::exchange(has_begun_, true)) co_return;
  Connection& connection = session_.Choose();
  const std::string limit = std::to_string(options_.limit);
  connection.Add({"GOSSAMER.SCAN", "FROM", options_.from, "LIMIT", limit});
  bytes_ = co_await connection.Reply();
  session_.Count(OperationClass::kScan, 1, options_.from.size(), bytes_);
  if (std::optional<Error> error = session_.ErrorOf(connection, bytes_)) {
    status_ = std::move(*error);
    co_return;
  }
  ReplyReader reader(bytes_);
  const ReplyElement array = reader.Next();
  if (array.kind != ReplyElement::Kind::kArray || array.number % 2 != 0) {
    status_ = Unexpected(bytes_);
    co_return;
  }
  for (uint32_t i = 0; i < static_cast<uint32_t>(array.number / 2); ++i) {
    const std::string_view key = reader.Next().text;
    values_.push_back(reader.Next().text);
    entries_.push_back({key.data(), i, static_cast<uint8_t>(key.size()), ScanEntry::Kind::kAway});
  }
  SetEntries(entries_, values_.data());
}

// ---- requests

Result<std::unique_ptr<RedisSession>> RedisSession::Open(const RedisOptions& options) {
  std::unique_ptr<RedisSession> session;
  if (options.protocol == RedisOptions::Protocol::kMemcached) {
    session = MakeMemcachedSession(options);
  } else {
    session.reset(new RedisSession(options));
  }
  for (uint32_t i = 0; i < options.connections; ++i) {
    BOOST_OUTCOME_TRY(connection, Connection::Open(options.address, session->find_end_));
    session->polled_.push_back({connection->fd(), POLLIN, 0});
    session->connections_.push_back(std::move(connection));
    if (!options.login) continue;
    session->current_ = i;
    const Result<std::string> answer =
        session->Ask({"AUTH", options.login->user, options.login->password});
    if (!answer && answer.error().code != Code::kUnsupported) return answer.error();
    if (!answer) {
      return MakeError(Code::kInvalidArgument, options.address + " refuses the login of " +
                                                   options.login->user + ": " +
                                                   answer.error().message);
    }
  }
  session->current_ = 0;
  return session;
}

RedisSession::~RedisSession() { WaitAll(); }

// Those of one coroutine stay on one connection. With more coroutines than the connections have
// room for, the last one gets more.
Connection& RedisSession::Choose() {
  for (size_t i = 0; i < connections_.size(); ++i) {
    Connection& connection = *connections_[current_];
    if (connection.in_flight() < most_in_flight_) return connection;
    current_ = current_ + 1 == connections_.size() ? 0 : current_ + 1;
  }
  return *connections_[current_];
}

void RedisSession::Count(OperationClass operation, uint64_t operations, uint64_t request_bytes,
                         std::string_view reply) {
  WireCounts& wire = counters_.of(operation);
  wire.operations += operations;
  ++wire.round_trips;
  ++wire.sends;
  wire.bytes_written += request_bytes;
  wire.bytes_read += reply.size();
}

std::optional<Error> RedisSession::ErrorOf(const Connection& connection,
                                           std::string_view reply) const {
  if (reply.empty()) return connection.error();
  if (reply.front() != '-') return std::nullopt;
  const std::string_view line = ReplyReader(reply).Next().text;
  return MakeError(CodeOf(line), std::string(line));
}

Task<Result<std::string>> RedisSession::AsyncGet(std::string_view key) {
  Connection& connection = Choose();
  connection.Add({"GET", key});
  const std::string_view reply = co_await connection.Reply();
  Count(OperationClass::kRead, 1, key.size(), reply);
  if (std::optional<Error> error = ErrorOf(connection, reply)) co_return std::move(*error);
  const ReplyElement value = ReplyReader(reply).Next();
  if (value.kind == ReplyElement::Kind::kText) co_return std::string(value.text);
  if (value.kind == ReplyElement::Kind::kNull) co_return MakeError(Code::kNotFound);
  co_return Unexpected(reply);
}

Task<Status> RedisSession::AsyncPut(std::string_view key, std::string_view value, Expiry expiry) {
  if (!expiry.is_never()) co_return Absent();
  Connection& connection = Choose();
  connection.Add({"SET", key, value});
  const std::string_view reply = co_await connection.Reply();
  Count(OperationClass::kUpdate, 1, key.size() + value.size(), reply);
  if (std::optional<Error> error = ErrorOf(connection, reply)) co_return std::move(*error);
  if (reply == "+OK\r\n") co_return Ok();
  co_return Unexpected(reply);
}

Task<void> RedisSession::AsyncMultiGet(std::span<const std::string_view> keys, Values& values) {
  Connection& connection = Choose();
  connection.Begin(keys.size() + 1);
  connection.AddWord("MGET");
  uint64_t request_bytes = 0;
  for (const std::string_view key : keys) {
    connection.AddWord(key);
    request_bytes += key.size();
  }
  const std::string_view reply = co_await connection.Reply();
  Count(OperationClass::kRead, keys.size(), request_bytes, reply);
  values.Reset(keys.size());
  std::optional<Error> error = ErrorOf(connection, reply);
  ReplyReader reader(reply);
  if (!error) {
    const ReplyElement array = reader.Next();
    if (array.kind != ReplyElement::Kind::kArray ||
        array.number != static_cast<int64_t>(keys.size())) {
      error = Unexpected(reply);
    }
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    if (error) {
      values.Set(i, Result<std::string>(*error));
      continue;
    }
    const ReplyElement value = reader.Next();
    if (value.kind == ReplyElement::Kind::kText) values.Set(i, value.text);
  }
}

Task<void> RedisSession::AsyncMultiPut(std::span<const KeyValueView> pairs,
                                       std::span<Status> results) {
  Connection& connection = Choose();
  connection.Begin(2 * pairs.size() + 1);
  connection.AddWord("MSET");
  uint64_t request_bytes = 0;
  for (const KeyValueView& pair : pairs) {
    connection.AddWord(pair.key);
    connection.AddWord(pair.value);
    request_bytes += pair.key.size() + pair.value.size();
  }
  const std::string_view reply = co_await connection.Reply();
  Count(OperationClass::kUpdate, pairs.size(), request_bytes, reply);
  std::optional<Error> error = ErrorOf(connection, reply);
  if (!error && reply != "+OK\r\n") error = Unexpected(reply);
  std::fill(results.begin(), results.end(), error ? Status(*error) : Status(Ok()));
}

std::unique_ptr<ScanCursor> RedisSession::Scan(const ScanOptions& options) {
  return std::make_unique<RedisCursor>(*this, options);
}

Result<std::string> RedisSession::AwaitReply(Connection& connection) {
  return RunToEnd([](Connection& asked) -> Task<Result<std::string>> {
    const std::string_view reply = co_await asked.Reply();
    if (reply.empty()) co_return *asked.error();
    co_return std::string(reply);
  }(connection));
}

Result<std::string> RedisSession::Ask(std::initializer_list<std::string_view> words) {
  Connection& connection = Choose();
  connection.Add(words);
  BOOST_OUTCOME_TRY(reply, AwaitReply(connection));
  if (std::optional<Error> error = ErrorOf(connection, reply)) return std::move(*error);
  return reply;
}

// Redis answers COMMAND INFO of an unknown command with a null in an array.
Result<bool> RedisSession::HasScans() {
  BOOST_OUTCOME_TRY(reply, Ask({"COMMAND", "INFO", "GOSSAMER.SCAN"}));
  ReplyReader reader(reply);
  const ReplyElement array = reader.Next();
  return array.number > 0 && reader.Next().kind == ReplyElement::Kind::kArray;
}

Result<std::string> RedisSession::Software() {
  BOOST_OUTCOME_TRY(info, Ask({"INFO", "server"}));
  const std::string own = Field(info, "gossamer_version");
  return own.empty() ? "Redis " + Field(info, "redis_version") : "gossamer-compute " + own;
}

Result<double> RedisSession::CpuSeconds() {
  BOOST_OUTCOME_TRY(info, Ask({"INFO", "cpu"}));
  double total = 0;
  for (const char* const name : {"used_cpu_sys", "used_cpu_user"}) {
    total += std::strtod(Field(info, name).c_str(), nullptr);
  }
  return total;
}

// ---- the loop

internal::Detached RedisSession::Drive(Task<void> task) {
  co_await task;
  --running_;
}

void RedisSession::Spawn(Task<void> task) {
  ++running_;
  Drive(std::move(task));
}

void RedisSession::RunUntilDone(std::coroutine_handle<> task) {
  task.resume();
  while (!task.done()) Round(-1);
}

void RedisSession::Round(int timeout_ms) {
  for (size_t i = 0; i < connections_.size(); ++i) {
    current_ = i;
    connections_[i]->Flush();
    const bool may_send = connections_[i]->has_unsent();
    polled_[i].events = static_cast<int16_t>(may_send ? POLLIN | POLLOUT : POLLIN);
    // A lost connection would be ready all the time.
    polled_[i].fd = connections_[i]->error() ? -1 : connections_[i]->fd();
  }
  const bool waits = std::ranges::any_of(
      connections_, [](const auto& connection) { return connection->in_flight() != 0; });
  if (!waits) return;
  if (poll(polled_.data(), polled_.size(), timeout_ms) <= 0) return;
  for (size_t i = 0; i < connections_.size(); ++i) {
    if ((polled_[i].revents & ~POLLOUT) == 0) continue;
    current_ = i;
    connections_[i]->Receive();
  }
}

size_t RedisSession::Poll() {
  Round(0);
  return running_;
}

void RedisSession::WaitAll() {
  while (running_ != 0) Round(-1);
}

}  // namespace gossamer::bench
