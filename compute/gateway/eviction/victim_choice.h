// VictimChoice: which of some drawn keys go.
//
// An eighth of them goes: of the coldest, as KeyHeat tells, or of those that expire, the soonest.
// What has expired already goes in any case.
//
// Keys of which this gateway knows nothing were not used through it for long, or ever. If it is the
// only one of the store, they are the coldest.
//
// If there are others, these may use such keys, and those that they have put. So each gateway
// chooses among the keys that were put through it, whose memory it gets back at once. Of all
// others, and of those that it does not know, only a 64th goes, drawn by chance: that many were put
// through a gateway that is gone, or are used by nobody. While it has less than half of its share
// of the keys, they go first.
//
// Thread-safety: as EvictionChoice.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <span>
#include <vector>

#include "common/random.h"
#include "compute/gateway/eviction/key_heat.h"
#include "compute/gateway/protocol/reserved_keys.h"
#include "gossamer/eviction.h"

namespace gossamer::gateway {

// How cold the keys of each group were that were drawn of late: a few candidates are judged by all
// of these, so that the coldest of three hot keys stays.
//
// Thread-safety: all threads.
class RecentColdness {
 public:
  // Adds those of a group. Returns from which coldness on a key is among the coldest `share`.
  int Add(size_t group, std::span<const int> coldness, double share);

 private:
  static constexpr size_t kMost = 2048;

  std::mutex mutex_;
  std::array<std::vector<int>, KeyHeat::kGroups> recent_;  // guarded by mutex_
  std::array<size_t, KeyHeat::kGroups> next_{};            // likewise; the oldest, once it is full
};

class VictimChoice final : public EvictionChoice {
 public:
  static constexpr double kShare = 1.0 / 8;
  static constexpr double kShareOfOthers = 1.0 / 64;

  struct Circumstances {
    uint64_t now_ms = 0;           // the store's time
    uint32_t compute_servers = 1;  // that use the store, with this one
    // Blocks of these sizes were refused, which are sorted: keys that give back such come first.
    std::span<const uint64_t> wanted_blocks = {};
  };

  // `heat`: null: keys that expire go, and no others. Both must outlive it.
  VictimChoice(const KeyHeat* heat, RecentColdness& recent, const Circumstances& circumstances,
               uint64_t seed)
      : heat_(heat), recent_(recent), circumstances_(circumstances), random_(seed) {
    coldest_.fill(std::numeric_limits<int>::max());
  }

  // The items of large hashes go with these, by the key of the hash.
  bool MayGo(std::string_view key) const override { return !IsReserved(key); }
  void Choose(std::span<EvictionCandidate> candidates) override;
  // Whether it is as cold, or expires as soon, as the others that were chosen.
  bool StillGoes(uint64_t key_hash, Expiry expiry) override;

 private:
  struct Ranked {
    EvictionCandidate* candidate;
    uint64_t rank;  // the highest first
  };

  // Marks a share of them, those with the highest rank, which are the first ones then. Returns how
  // many. An eighth of 10 is one, or sometimes two.
  size_t Take(std::vector<Ranked>& ranked, double share);
  void ChooseSoonest(const std::vector<EvictionCandidate*>& candidates);
  void ChooseColdest(const std::vector<EvictionCandidate*>& candidates);

  // The same for keys of a group that are known: those that are cold beside others of late.
  size_t TakeColdest(size_t group, std::vector<Ranked>& ranked, double share);

  const KeyHeat* const heat_;
  RecentColdness& recent_;
  const Circumstances circumstances_;
  Random random_;
  uint64_t latest_ms_ = 0;                       // of keys that were chosen because they expire
  std::vector<uint64_t> taken_unknown_;          // hashes, sorted
  std::array<int, KeyHeat::kGroups> coldest_{};  // the least coldness that was chosen
};

}  // namespace gossamer::gateway
