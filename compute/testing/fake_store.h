// FakeStore: a store in a std::map, for tests of what is written against `Store` and `Session`.
//
// Exact and quick, with failures on request. Asynchronous operations end after a random number of polls, in another
// order than they began: whoever relies on an order must wait. Each operation counts as one round trip and one READ or
// WRITE of kBytes, and as a hit of the cache. Thread-safety: as in store.h; what tests set is set before.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gossamer/store.h"

namespace gossamer {

class FakeStore : public Store {
 public:
  static constexpr uint64_t kBytes = 100;
  using Map = std::map<std::string, std::string, std::less<>>;

  struct State {
    StoreParameters parameters;
    uint64_t seed = 1;  // of the next session; guarded by `mutex` once there are any
    uint64_t max_keys = std::numeric_limits<uint64_t>::max();  // then Exhausted
    std::optional<Error> fail_with;                            // all but sessions fail
    uint64_t fail_interval = 0;  // not 0: only every so-manieth operation of a session does
    bool refuse_sessions = false;
    std::vector<std::string> problems;  // what Check finds
    uint64_t locks_held = 0;            // likewise
    std::vector<MissingKeys> missing;   // of every scan with `salvage`
    std::function<void(uint64_t puts)> after_put;

    std::mutex mutex;  // guards the rest
    Map map;
    uint64_t puts = 0;
    size_t most_in_flight = 0;  // of any session
    std::atomic<bool> overlapping_writes =
        false;  // two puts of one key were in flight in a session
  };
  State& state() { return state_; }

  Result<std::unique_ptr<Session>> NewSession() override;
  const StoreParameters& parameters() const override { return state_.parameters; }
  // Of two memory servers, made up.
  Result<StoreStat> Stat() override;
  Result<CheckReport> Check(const std::function<void(uint64_t leaves)>& progress) override;

 private:
  State state_;
};

}  // namespace gossamer
