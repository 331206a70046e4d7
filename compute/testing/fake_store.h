// FakeStore: a store in a std::map, for tests of code that uses `Store` and `Session`.
//
// Exact and quick, with failures on request. Operations end after a random number of polls and in
// random order, so that code which relies on an order must wait; a synchronous one polls until it
// has ended. Each operation counts as one round trip, one READ or WRITE of kBytes, and one cache
// hit.
//
// Thread-safety: as in store.h. Tests set options before they start threads.
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
#include "proto/entry.h"

namespace gossamer {

class FakeStore : public Store {
 public:
  static constexpr uint64_t kBytes = 100;
  static constexpr uint64_t kKeyBytes = 1000;
  using Map = std::map<std::string, std::string, std::less<>>;

  struct State {
    StoreParameters parameters;
    uint64_t seed = 1;  // of the next session; guarded by `mutex` once there is a session
    uint64_t max_keys = std::numeric_limits<uint64_t>::max();  // further keys are Exhausted
    // Not 0: each key takes kKeyBytes of so many bytes, which MemoryLevel tells; further keys are
    // Exhausted.
    uint64_t key_memory = 0;
    std::optional<Error> fail_with;  // everything except opening sessions fails
    uint64_t fail_interval = 0;      // not 0: only every n-th operation of a session fails
    bool refuse_sessions = false;
    std::vector<std::string> problems;  // what Check reports
    uint64_t locks_held = 0;            // what Check reports
    MemoryUse memory{uint64_t{1} << 30,  uint64_t{200} << 20, uint64_t{3} << 28,
                     uint64_t{16} << 20, uint64_t{32} << 20,  uint64_t{8} << 20};  // of each server
    std::vector<MissingKeys> missing;  // reported by every scan with `salvage`
    std::function<void(uint64_t puts)> after_put;
    std::atomic<bool> needs_sweep = false;     // until it is swept
    std::atomic<bool> others_sweep = false;    // so SweepIfNeeded does nothing
    std::atomic<uint64_t> refused_sweeps = 0;  // because others do
    std::atomic<bool> endless_sweeps = false;  // sweeps go on until they are stopped
    std::atomic<bool> endless_scans =
        false;  // scans without a limit begin anew at their end, and never wait

    std::mutex mutex;  // guards the members below
    Map map;
    std::map<std::string, uint64_t, std::less<>> expires_at;  // of keys that expire
    std::atomic<uint64_t> time_ms = 1'700'000'000'000;        // the store's, which a test sets
    std::vector<std::string> bookmarks;  // their positions, by their numbers from 1 on
    uint64_t puts = 0;
    size_t most_in_flight = 0;   // in any session
    uint64_t loaded_sorted = 0;  // pairs given to LoadSorted
    std::atomic<bool> overlapping_writes =
        false;  // two puts of one key were in flight in a session

    void Erase(Map::iterator found) {
      if (const auto at = expires_at.find(found->first); at != expires_at.end()) {
        expires_at.erase(at);
      }
      map.erase(found);
    }
    void DropExpired() {
      for (auto at = expires_at.begin(); at != expires_at.end();) {
        const auto next = std::next(at);
        if (HasExpired(at->second, time_ms)) {
          map.erase(map.find(at->first));
          expires_at.erase(at);
        }
        at = next;
      }
    }
  };
  State& state() { return state_; }

  Result<std::unique_ptr<Session>> NewSession() override;
  const StoreParameters& parameters() const override { return state_.parameters; }
  // Nothing: sessions of this store count for themselves.
  Counters counters() const override { return {}; }
  size_t sessions() const override { return 0; }
  std::vector<HotLeaf> HotLeaves(size_t) const override { return {}; }
  // For two invented memory servers.
  Result<StoreStat> Stat() override;
  // The keys are told as estimated.
  Result<StoreUse> MeasureMemory(const std::function<void(uint64_t nodes)>& progress) override;
  Result<CheckReport> Check(const std::function<void(uint64_t leaves)>& progress) override;
  Result<SweepReport> Sweep(const std::function<bool(const SweepProgress&)>& progress) override;
  // Of two lost servers.
  Result<RepairReport> Repair(bool dry_run,
                              const std::function<bool(uint64_t nodes)>& progress) override;
  Result<bool> NeedsSweep() override { return state_.needs_sweep.load(); }
  Result<std::optional<SweepReport>> SweepIfNeeded(
      const std::function<bool(const SweepProgress&)>& progress) override;

 private:
  State state_;
};

}  // namespace gossamer
