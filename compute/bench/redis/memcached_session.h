// MemcachedSession: one thread's connections to memcached, as RedisSession.
//
// Gets and puts are Get and Set of the binary protocol; MultiGet and MultiPut are their quiet
// forms, with a Noop behind them.
//
// Thread-safety: none.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "compute/bench/redis/memcached_packets.h"
#include "compute/bench/redis/redis_session.h"

namespace gossamer::bench {

class MemcachedSession final : public RedisSession {
 public:
  explicit MemcachedSession(const RedisOptions& options) : RedisSession(options, FindPacketsEnd) {}

  Result<std::string> Software() override;
  Result<double> CpuSeconds() override;
  Result<bool> HasScans() override { return false; }

  Task<Result<std::string>> AsyncGet(std::string_view key) override;
  Task<Status> AsyncPut(std::string_view key, std::string_view value) override;
  Task<void> AsyncMultiGet(std::span<const std::string_view> keys, Values& values) override;
  Task<void> AsyncMultiPut(std::span<const KeyValueView> pairs, std::span<Status> results) override;

 private:
  Result<std::map<std::string, std::string>> Stats();
};

}  // namespace gossamer::bench
