#include "compute/bench/redis/memcached_session.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace gossamer::bench {
namespace {

Error RefusalOf(const MemcachedPacket& packet) {
  if (packet.status == kMemcachedNotFound) return MakeError(Code::kNotFound);
  const bool is_full = packet.status == kMemcachedNoMemory;
  return MakeError(is_full ? Code::kExhausted : Code::kUnsupported,
                   "the server answered " + std::string(packet.value));
}

}  // namespace

Task<Result<std::string>> MemcachedSession::AsyncGet(std::string_view key) {
  Connection& connection = Choose();
  AppendRequest(connection.unsent(), MemcachedOpcode::kGet, key);
  const std::string_view answer = co_await connection.Reply();
  Count(OperationClass::kRead, 1, key.size(), answer);
  if (answer.empty()) co_return *connection.error();
  const MemcachedPacket packet = PacketReader(answer).Next();
  if (packet.status != kMemcachedOk) co_return RefusalOf(packet);
  co_return std::string(packet.value);
}

Task<Status> MemcachedSession::AsyncPut(std::string_view key, std::string_view value) {
  Connection& connection = Choose();
  AppendRequest(connection.unsent(), MemcachedOpcode::kSet, key, value);
  const std::string_view answer = co_await connection.Reply();
  Count(OperationClass::kUpdate, 1, key.size() + value.size(), answer);
  if (answer.empty()) co_return *connection.error();
  const MemcachedPacket packet = PacketReader(answer).Next();
  if (packet.status != kMemcachedOk) co_return RefusalOf(packet);
  co_return Ok();
}

Task<void> MemcachedSession::AsyncMultiGet(std::span<const std::string_view> keys, Values& values) {
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

Task<void> MemcachedSession::AsyncMultiPut(std::span<const KeyValueView> pairs,
                                           std::span<Status> results) {
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

Result<std::map<std::string, std::string>> MemcachedSession::Stats() {
  using Map = std::map<std::string, std::string>;
  Connection& connection = Choose();
  AppendRequest(connection.unsent(), MemcachedOpcode::kStat);
  return RunToEnd([](Connection& asked) -> Task<Result<Map>> {
    const std::string_view answer = co_await asked.Reply();
    if (answer.empty()) co_return *asked.error();
    Map stats;
    for (PacketReader reader(answer); reader.has_next();) {
      const MemcachedPacket packet = reader.Next();
      if (!packet.key.empty()) stats[std::string(packet.key)] = packet.value;
    }
    co_return stats;
  }(connection));
}

Result<std::string> MemcachedSession::Software() {
  BOOST_OUTCOME_TRY(stats, Stats());
  return "memcached " + stats["version"];
}

Result<double> MemcachedSession::CpuSeconds() {
  BOOST_OUTCOME_TRY(stats, Stats());
  double total = 0;
  for (const char* const name : {"rusage_user", "rusage_system"}) {
    total += std::strtod(stats[name].c_str(), nullptr);
  }
  return total;
}

}  // namespace gossamer::bench
