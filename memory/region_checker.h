// RegionChecker: checks in the background what a memory server holds that has come back with it.
//
// Damaged is what a DamageFinder has found each time that it looked within `patience`, with the
// same bytes: a client's WRITE may be under way, or its process may wait for a processor.
//
// Thread-safety: all calls from any thread; the destructor ends it.
// Cost: one thread of low priority, which reads at most `bytes_per_second`.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/embedded_memory.h"
#include "common/status.h"
#include "memory/damage_finder.h"

namespace gossamer {

struct RegionCheckOptions {
  std::chrono::milliseconds patience{5000};
  uint64_t bytes_per_second = uint64_t{512} << 20;
};

class RegionChecker {
 public:
  // The memory of `region` outlives the checker.
  explicit RegionChecker(LivingRegion region, RegionCheckOptions options = {});
  RegionChecker(const RegionChecker&) = delete;
  RegionChecker& operator=(const RegionChecker&) = delete;
  ~RegionChecker();

  // Errors: Unsupported if there is no thread for it.
  Status Start();
  RegionCheck report() const;

 private:
  using Clock = std::chrono::steady_clock;
  // Offset, and what is damaged there.
  using Place = std::pair<uint64_t, std::string>;
  struct Suspect {
    uint64_t node;  // that was looked at
    Checksum bytes;
    Clock::time_point since;  // it has these bytes
    Clock::time_point noted;
  };

  enum class State : uint8_t { kSound, kUnclear, kDamaged };

  void Run();
  // Looks at the node at `offset`, or at the root (kRootWordOffset), and notes what fails.
  void Check(uint64_t offset);
  std::vector<Damage> Look(uint64_t offset);
  // Looks at suspects until none is left. Returns false at the end.
  bool Settle();
  void LookAtSuspectsAgain();
  State Judge(const Place& place, Suspect& suspect, const std::vector<Damage>& seen) const;
  void Confirm(const Place& place);
  // Counts `bytes` of nodes, and waits as long as the rate wants. Returns false at the end.
  bool Pace(uint64_t bytes);
  bool Sleep(Clock::duration time);
  uint64_t NodeBytes() const;

  const LivingRegion region_;
  const RegionCheckOptions options_;
  DamageFinder finder_;
  std::map<Place, Suspect> suspects_;
  std::set<Place> damaged_;
  Clock::time_point paced_;   // when the reading is due that was done
  uint64_t paced_bytes_ = 0;  // that were read until then
  Clock::time_point said_;

  mutable std::mutex mutex_;
  std::condition_variable ends_changed_;
  bool ends_ = false;
  RegionCheck report_;
  std::thread thread_;  // uses all of the above
};

}  // namespace gossamer
