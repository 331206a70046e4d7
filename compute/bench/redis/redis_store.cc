#include "compute/bench/redis/redis_store.h"

#include <utility>

#include "compute/bench/redis/redis_session.h"

namespace gossamer::bench {
Result<std::unique_ptr<RedisStore>> RedisStore::Open(const RedisOptions& options,
                                                     bool needs_scans) {
  BOOST_OUTCOME_TRY(session, RedisSession::Open(options));
  std::unique_ptr<RedisStore> store(new RedisStore(options));
  Result<std::string> software = session->Software();
  if (!software) {
    Error error = software.error();
    if (error.message.starts_with("NOAUTH")) error.message += " Give --redis_password_file=FILE.";
    return error;
  }
  store->server_ = std::move(software.value());
  if (!needs_scans) return store;
  BOOST_OUTCOME_TRY(has_scans, session->HasScans());
  if (has_scans) return store;
  return MakeError(Code::kInvalidArgument, "--workload=e scans in the order of keys, and " +
                                               store->server_ +
                                               " has no command for that (GOSSAMER.SCAN)");
}

Result<double> RedisStore::ServerCpuSeconds() {
  RedisOptions options = options_;
  options.connections = 1;
  BOOST_OUTCOME_TRY(session, RedisSession::Open(options));
  return session->CpuSeconds();
}

Result<std::unique_ptr<Session>> RedisStore::NewSession() {
  BOOST_OUTCOME_TRY(session, RedisSession::Open(options_));
  return std::unique_ptr<Session>(std::move(session));
}

}  // namespace gossamer::bench
