// KeyHeat: how often and how recently keys were used by this gateway. One-sided reads leave no
// trace in the memory servers, so each gateway notes what its own clients use, in its own memory.
//
// The heat of a key is the number of its uses, of which each counts half as much after each
// half-life (LRFU, Lee et al. '01). Its logarithm sinks at the same rate for all keys. So what is
// stored is the logarithm that the heat had at time 0: it changes with uses only, and the coldest
// key is the one with the least of it. Time is the number of uses, in half-lives.
//
// Which half-life is best depends on the clients: a short one is LRU, a long one LFU. So keys are
// in groups by their hash. Each of the first kLeaders groups, a 32nd of all keys each, has a
// half-life of its own; all others, one group, have that of the leader with the fewest misses (set
// duelling, Qureshi et al. '07). A miss counts if the key is known: it was here and was evicted, so
// another choice might have kept it. Heats of different groups do not compare: victims are chosen
// within each.
//
// The table has a tag of 16 bits and the heat of each key, also of keys that are not in the store
// (any more). Of eight keys in a full bucket the coldest gives way. Keys that are not in the table
// are unknown.
//
// Thread-safety: all threads may call all; uses are noted without locks. A use may get lost if two
// threads note keys of one bucket at a time.
// Cost: one cache line for each key; no allocation.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace gossamer::gateway {

class KeyHeat {
 public:
  // In uses of any keys, for each key in the store.
  static constexpr std::array<double, 4> kHalfLives{0.25, 1, 4, 16};
  static constexpr size_t kLeaders = kHalfLives.size();
  static constexpr size_t kGroups = kLeaders + 1;
  // Of the logarithm: so many for each half-life.
  static constexpr int kSteps = 16;

  // `bytes` of memory, rounded down to a power of two. Requires: at least 4096. `seed` decides
  // where keys lie, so that clients cannot choose those that share a bucket.
  KeyHeat(uint64_t bytes, uint64_t seed);

  // What a table for a store of `limit_bytes` takes: room for two keys in each 128 bytes, and 64
  // MiB at most.
  static uint64_t BytesFor(uint64_t limit_bytes);

  // Notes one use. Returns whether the key was known.
  bool Use(uint64_t key_hash);
  // The key becomes as hot as one that was used once, now; a hotter one stays as hot. For the put
  // that follows a miss, which has been noted as a use.
  void Refresh(uint64_t key_hash);
  // A known key was looked for, and is not in the store.
  void Missed(uint64_t key_hash);
  // Time goes on by so many uses. `keys_in_store`: about; 0: not known, then as many as the table
  // has. Now and then lets the large group follow
  // another leader.
  void Advance(uint64_t uses, uint64_t keys_in_store);
  // Forgets keys that have not been used for 1,000 half-lives, where that is due: call every few
  // seconds. Cost: mostly none, else a pass through the table.
  void Tend();

  size_t GroupOf(uint64_t key_hash) const { return GroupOfTag(Mix(key_hash).tag); }
  // How cold the key is, in steps below one that was used once, now; negative of a hotter one.
  // nullopt: it is unknown. Compares within a group.
  std::optional<int> ColdnessOf(uint64_t key_hash) const;
  // Of the large group.
  double half_life() const { return kHalfLives[leader_.load(std::memory_order_relaxed)]; }

 private:
  static constexpr size_t kWays = 8;
  static constexpr size_t kClasses = 32;    // of keys: a leader has one of them
  static constexpr int kFractionBits = 20;  // of the clocks, in steps
  // A heat may be so many steps above that of one use, now: the rest of 16 bits is for colder ones.
  static constexpr uint16_t kHottest = 1024;

  struct alignas(32) Bucket {
    std::array<std::atomic<uint32_t>, kWays> slots{};  // tag << 16 | heat; 0: free
  };
  static_assert(sizeof(Bucket) == 32);
  struct Place {
    size_t bucket;
    uint16_t tag;  // not 0
  };

  Place Mix(uint64_t key_hash) const;
  static size_t GroupOfTag(uint16_t tag) {
    const size_t group = tag % kClasses;
    return group < kLeaders ? group : kLeaders;
  }
  uint16_t NowOf(size_t group) const {
    return static_cast<uint16_t>(clocks_[group].load(std::memory_order_relaxed) >> kFractionBits);
  }
  static int Coldness(uint16_t heat, uint16_t now) {
    return static_cast<uint16_t>(now + kHottest - heat) - kHottest;
  }
  // The slot of the key, or the one that it is to have: a free one, or the coldest key's.
  std::atomic<uint32_t>& Find(const Place& place, bool& is_known);
  void Choose(double least_uses);

  const uint64_t seed_;
  std::vector<Bucket> buckets_;
  std::atomic<uint64_t> known_keys_ = 0;                 // in the table, about
  std::array<std::atomic<uint64_t>, kGroups> clocks_{};  // steps, with a fraction
  std::array<std::atomic<uint64_t>, kLeaders> misses_{};
  std::atomic<uint64_t> uses_ = 0;  // since the last choice
  std::atomic<size_t> leader_ = 1;
  std::mutex choice_mutex_;
  std::array<double, kLeaders> recent_misses_{};  // guarded by choice_mutex_
  std::array<uint64_t, kGroups> forgotten_at_{};  // likewise; by Tend
};

}  // namespace gossamer::gateway
