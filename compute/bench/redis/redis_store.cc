#include "compute/bench/redis/redis_store.h"

#include <cstdlib>
#include <utility>

#include "compute/bench/redis/redis_session.h"

namespace gossamer::bench {
namespace {

Error NoSuchFigures() {
  return MakeError(Code::kUnsupported, "a server of the Redis protocol does not tell that");
}

// A field of an INFO reply; "" if it has none of that name.
std::string Field(const std::string& info, const std::string& name) {
  const size_t at = info.find("\n" + name + ":");
  if (at == std::string::npos) return {};
  const size_t begin = at + name.size() + 2;
  return info.substr(begin, info.find_first_of("\r\n", begin) - begin);
}

}  // namespace

Result<std::unique_ptr<RedisStore>> RedisStore::Open(const RedisOptions& options,
                                                     bool needs_scans) {
  BOOST_OUTCOME_TRY(session, RedisSession::Open(options));
  std::unique_ptr<RedisStore> store(new RedisStore(options));
  BOOST_OUTCOME_TRY(info, session->Ask({"INFO", "server"}));
  const std::string own = Field(info, "gossamer_version");
  store->server_ =
      own.empty() ? "Redis " + Field(info, "redis_version") : "gossamer-compute " + own;
  if (!needs_scans) return store;
  BOOST_OUTCOME_TRY(has_scans, session->HasCommand("GOSSAMER.SCAN"));
  if (has_scans) return store;
  return MakeError(Code::kInvalidArgument, "--workload=e scans in the order of keys, and " +
                                               store->server_ +
                                               " has no command for that (GOSSAMER.SCAN)");
}

Result<double> RedisStore::ServerCpuSeconds() {
  BOOST_OUTCOME_TRY(session, RedisSession::Open({.address = options_.address}));
  BOOST_OUTCOME_TRY(info, session->Ask({"INFO", "cpu"}));
  double total = 0;
  for (const char* const name : {"used_cpu_sys", "used_cpu_user"}) {
    total += std::strtod(Field(info, name).c_str(), nullptr);
  }
  return total;
}

Result<std::unique_ptr<Session>> RedisStore::NewSession() {
  BOOST_OUTCOME_TRY(session, RedisSession::Open(options_));
  return std::unique_ptr<Session>(std::move(session));
}

Result<StoreStat> RedisStore::Stat() { return NoSuchFigures(); }
Result<std::map<uint32_t, MemoryUse>> RedisStore::MeasureMemory(
    const std::function<void(uint64_t)>&) {
  return NoSuchFigures();
}
Result<CheckReport> RedisStore::Check(const std::function<void(uint64_t)>&) {
  return NoSuchFigures();
}
Result<bool> RedisStore::NeedsSweep() { return NoSuchFigures(); }
Result<std::optional<SweepReport>> RedisStore::SweepIfNeeded(
    const std::function<bool(const SweepProgress&)>&) {
  return NoSuchFigures();
}
Result<SweepReport> RedisStore::Sweep(const std::function<bool(const SweepProgress&)>&) {
  return NoSuchFigures();
}

}  // namespace gossamer::bench
