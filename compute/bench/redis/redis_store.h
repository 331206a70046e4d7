// RedisStore: a server of the Redis protocol, or memcached, as a Store, so that the bench runs the
// same workloads on it.
//
// A session is one thread's connections. Gets and puts are GET and SET, MultiGet and MultiPut are
// MGET and MSET, a scan is GOSSAMER.SCAN. Session::Spawn as many coroutines as `pipeline` times
// `connections`: then each connection has `pipeline` requests in flight at most. A coroutine goes
// on on the connection that has answered it.
//
// What the bench does not use is Unsupported. `counters` counts requests: a round trip and a send
// each, the bytes of their keys and values, and those of the replies. A put counts as an update, as
// the server does not say whether the key was there.
//
// Thread-safety: as in store.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "compute/research/partial_store.h"
#include "gossamer/store.h"

namespace gossamer::bench {

inline constexpr std::string_view kRedisName = "a server of the Redis protocol";

struct RedisLogin {
  std::string user;
  std::string password;
};

struct RedisOptions {
  enum class Protocol : uint8_t { kRedis, kMemcached };

  Protocol protocol = Protocol::kRedis;
  std::string address;  // unix:PATH or ADDRESS:PORT
  std::optional<RedisLogin> login = std::nullopt;
  uint32_t connections = 1;  // of each session
  uint32_t pipeline = 64;    // requests in flight on each
};

class RedisStore : public PartialStore {
 public:
  // Errors: InvalidArgument for another address, for a login that is refused, or if `needs_scans`
  // and the server has no GOSSAMER.SCAN; NodeUnreachable if nothing answers there.
  static Result<std::unique_ptr<RedisStore>> Open(const RedisOptions& options, bool needs_scans);

  // "Redis 7.0.15"
  const std::string& server() const { return server_; }
  // Processor time that the server has used so far.
  Result<double> ServerCpuSeconds();

  Result<std::unique_ptr<Session>> NewSession() override;
  const StoreParameters& parameters() const override { return parameters_; }

 private:
  explicit RedisStore(RedisOptions options)
      : PartialStore(kRedisName), options_(std::move(options)) {}

  const RedisOptions options_;
  StoreParameters parameters_;
  std::string server_;
};

}  // namespace gossamer::bench
