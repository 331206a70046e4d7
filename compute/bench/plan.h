// From flags to what the bench will do: checks every value, so that a wrong one is a sentence
// before anything is started.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compute/bench/runner.h"
#include "gossamer/store.h"

namespace gossamer::bench {

// The values of the flags as they were given.
struct FlagValues {
  std::string workload = "c";
  std::string phase = "both";
  uint64_t records = 1'000'000;
  uint64_t operations = 1'000'000;
  uint64_t threads = 1;
  uint64_t coroutines = 64;
  uint64_t batch = 1;
  std::string distribution;  // empty: the workload's own
  double theta = 0.99;
  uint64_t key_bytes = 8;
  uint64_t value_bytes = 8;
  uint64_t seed = 42;
  std::string json;  // empty: none; "-": stdout
  bool warm_up = true;
  std::string local;  // empty: a running store; "auto", or a size

  bool store_is_named = false;  // --store or --bootstrap was given
  std::string bootstrap;
  std::string store = "default";
  std::string fabric = "shm";
  std::string device;
  std::string cache_bytes = "256MiB";
  Techniques techniques{};
  bool on_chip_locks = true;
};

struct Plan {
  RunnerOptions runner;
  bool load = false;
  bool run = false;
  bool warm_up = false;
  bool may_meet_others_keys = false;  // the store was named, or is the bench's own
  std::optional<LocalOptions> local;  // else `open`
  OpenOptions open;
};

// InvalidArgument: a sentence that names the flag and says what fits.
Result<Plan> MakePlan(const FlagValues& flags);

// A plan that writes to a store that was not named may write to an empty store only: InvalidArgument,
// with what to do, where it has keys. Other plans do not look at the store. Other errors are those of
// opening a session and of its scan.
Status CheckMayWrite(Store& store, const Plan& plan);

// Memory that a store needs for `records` records in random order, with room to spare.
uint64_t MemoryFor(uint64_t records, uint32_t key_bytes, uint32_t value_bytes);

}  // namespace gossamer::bench
