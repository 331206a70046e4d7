// Turns flags into a plan for the bench. Checks every value before anything is started.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "common/program/fabric_flags.h"
#include "compute/bench/redis/redis_store.h"
#include "compute/bench/runner.h"
#include "compute/research/sherman/design.h"
#include "gossamer/store.h"

namespace gossamer::bench {

// The values of the flags.
struct FlagValues {
  std::set<std::string, std::less<>> given;  // names of the flags that are not left out
  std::string workload = "c";
  std::string phase = "both";
  uint64_t records = 1'000'000;
  uint64_t operations = 1'000'000;
  uint64_t threads = 1;
  uint64_t sessions = 1;
  uint64_t coroutines = 64;
  uint64_t batch = 1;
  std::string distribution;  // empty: the workload's own
  double theta = 0.99;
  uint64_t key_bytes = 8;
  std::string key_prefix;
  std::string key_form = "numbers";
  std::string keys;  // a file; empty: none
  uint64_t value_bytes = 8;
  uint64_t seed = 42;
  std::string load_order = "random";
  uint64_t progress_ms = 0;
  uint64_t max_error_seconds = 0;
  bool warm_up = true;
  uint64_t processes = 1;
  std::string barrier;  // empty: this process alone
  std::string local;    // empty: a running store; otherwise "auto" or a size
  std::string design = "gossamer";

  std::string redis;  // empty: no server of the Redis protocol; otherwise its address
  std::string redis_user = "default";
  std::string redis_password_file;  // empty: no login
  std::string memcached;            // as `redis`
  uint64_t pipeline = 64;
  uint64_t connections = 1;

  std::string bootstrap;
  std::string store = "default";
  FabricFlags fabric{.fabric = "shm", .rdma = {}, .connection_timeout_ms = 2000};
  std::string cache_bytes = "256MiB";
  uint32_t reconnect_ms = 10'000;
  bool touch = true;
};

struct Plan {
  RunnerOptions runner;
  std::optional<KeyListOptions> key_list;  // to read and to hand to UseKeys before the plan is run
  bool load = false;
  bool run = false;
  bool warm_up = false;
  bool may_meet_others_keys = false;  // the store was named by flags, or belongs to the bench
  std::optional<LocalOptions> local;  // if unset, use `open`
  // If set, `local` gives memory and cache to this design of Sherman's evaluation.
  std::optional<sherman::Design> research;
  OpenOptions open;
  std::optional<RedisOptions> redis;  // if set, in place of a store
};

// Errors: InvalidArgument; the message names the flag and says what is allowed.
Result<Plan> MakePlan(const FlagValues& flags);

// Completes a plan with the keys that its `key_list` asked for.
// Errors: InvalidArgument: there are too few of them for --records or for what the workload
// inserts.
Status UseKeys(const FlagValues& flags, KeyList keys, Plan& plan);

// Errors: InvalidArgument, with what to do, if the store does not take keys of the plan's length.
Status CheckKeysFit(const Store& store, const Plan& plan);

// A plan that writes to a store that was not named requires an empty one. Other plans need no
// check.
// Errors: InvalidArgument, with what to do, if the store has keys; those of opening a session and
// of its scan.
Status CheckMayWrite(Store& store, const Plan& plan);

// Memory that a store needs for `records` records in random order, with a reserve, if their keys
// share no bytes.
uint64_t MemoryFor(uint64_t records, uint32_t key_bytes, uint32_t value_bytes);

}  // namespace gossamer::bench
