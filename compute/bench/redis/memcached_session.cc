#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "compute/bench/redis/memcached_packets.h"
#include "compute/bench/redis/redis_session.h"

namespace gossamer::bench {
namespace {

Error RefusalOf(const MemcachedPacket& packet) {
  if (packet.status == kMemcachedNotFound) return MakeError(Code::kNotFound);
  const bool is_full = packet.status == kMemcachedNoMemory;
  return MakeError(is_full ? Code::kExhausted : Code::kUnsupported,
                   "the server answered " + std::string(packet.value));
}

// What the answer to one request says, and its value, if there is one.
Result<std::string_view> ValueOf(const Connection& connection, std::string_view answer) {
  if (answer.empty()) return *connection.error();
  const MemcachedPacket packet = PacketReader(answer).Next();
  if (packet.status != kMemcachedOk) return RefusalOf(packet);
  return packet.value;
}

class MemcachedSession final : public RedisSession {
 public:
  explicit MemcachedSession(const RedisOptions& options) : RedisSession(options, FindPacketsEnd) {}

  Result<std::string> Software() override {
    BOOST_OUTCOME_TRY(stats, Stats());
    return "memcached " + stats["version"];
  }

  Result<double> CpuSeconds() override {
    BOOST_OUTCOME_TRY(stats, Stats());
    double total = 0;
    for (const char* const name : {"rusage_user", "rusage_system"}) {
      total += std::strtod(stats[name].c_str(), nullptr);
    }
    return total;
  }

  Result<bool> HasScans() override { return false; }

  Task<Result<std::string>> AsyncGet(std::string_view key) override {
    Connection& connection = Choose();
    AppendRequest(connection.unsent(), MemcachedOpcode::kGet, key);
    const std::string_view answer = co_await connection.Reply();
    Count(OperationClass::kRead, 1, key.size(), answer);
    BOOST_OUTCOME_CO_TRY(value, ValueOf(connection, answer));
    co_return std::string(value);
  }

  using RedisSession::AsyncPut;
  Task<Status> AsyncPut(std::string_view key, std::string_view value, Expiry expiry) override {
    if (!expiry.is_never()) co_return Absent();
    Connection& connection = Choose();
    AppendRequest(connection.unsent(), MemcachedOpcode::kSet, key, value);
    const std::string_view answer = co_await connection.Reply();
    Count(OperationClass::kUpdate, 1, key.size() + value.size(), answer);
    BOOST_OUTCOME_CO_TRYV(ValueOf(connection, answer));
    co_return Ok();
  }

  Task<void> AsyncMultiGet(std::span<const std::string_view> keys, Values& values) override {
    Connection& connection = Choose();
    uint64_t request_bytes = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      AppendRequest(connection.unsent(), MemcachedOpcode::kQuietGet, keys[i], {},
                    static_cast<uint32_t>(i));
      request_bytes += keys[i].size();
    }
    AppendRequest(connection.unsent(), MemcachedOpcode::kNoop);
    const std::string_view answer = co_await connection.Reply();
    Count(OperationClass::kRead, keys.size(), request_bytes, answer);
    values.Reset(keys.size());
    if (answer.empty()) {
      for (size_t i = 0; i < keys.size(); ++i) {
        values.Set(i, Result<std::string>(*connection.error()));
      }
    }
    for (PacketReader reader(answer); reader.has_next();) {
      const MemcachedPacket packet = reader.Next();
      if (packet.opcode != MemcachedOpcode::kQuietGet || packet.opaque >= keys.size()) continue;
      if (packet.status == kMemcachedOk) {
        values.Set(packet.opaque, packet.value);
      } else {
        values.Set(packet.opaque, Result<std::string>(RefusalOf(packet)));
      }
    }
  }

  Task<void> AsyncMultiPut(std::span<const KeyValueView> pairs,
                           std::span<Status> results) override {
    Connection& connection = Choose();
    uint64_t request_bytes = 0;
    for (size_t i = 0; i < pairs.size(); ++i) {
      AppendRequest(connection.unsent(), MemcachedOpcode::kQuietSet, pairs[i].key, pairs[i].value,
                    static_cast<uint32_t>(i));
      request_bytes += pairs[i].key.size() + pairs[i].value.size();
    }
    AppendRequest(connection.unsent(), MemcachedOpcode::kNoop);
    const std::string_view answer = co_await connection.Reply();
    Count(OperationClass::kUpdate, pairs.size(), request_bytes, answer);
    std::fill(results.begin(), results.end(),
              answer.empty() ? Status(*connection.error()) : Status(Ok()));
    for (PacketReader reader(answer); reader.has_next();) {
      const MemcachedPacket packet = reader.Next();
      if (packet.opcode != MemcachedOpcode::kQuietSet || packet.opaque >= pairs.size()) continue;
      results[packet.opaque] = RefusalOf(packet);
    }
  }

 private:
  Result<std::map<std::string, std::string>> Stats() {
    Connection& connection = Choose();
    AppendRequest(connection.unsent(), MemcachedOpcode::kStat);
    BOOST_OUTCOME_TRY(answer, AwaitReply(connection));
    std::map<std::string, std::string> stats;
    for (PacketReader reader(answer); reader.has_next();) {
      const MemcachedPacket packet = reader.Next();
      if (!packet.key.empty()) stats[std::string(packet.key)] = packet.value;
    }
    return stats;
  }
};

}  // namespace

std::unique_ptr<RedisSession> MakeMemcachedSession(const RedisOptions& options) {
  return std::make_unique<MemcachedSession>(options);
}

}  // namespace gossamer::bench
