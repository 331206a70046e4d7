// Hot path: no allocation, no lock.
#include "compute/gateway/eviction/key_heat.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>

#include "common/random.h"

namespace gossamer::gateway {
namespace {

constexpr uint64_t kLeastTable = 4096;
constexpr uint64_t kMostTable = uint64_t{64} << 20;
constexpr uint64_t kTableShare = 16;
// Of fewer keys, time goes on as of so many.
constexpr uint64_t kLeastKeys = 100;
// A choice is made whenever so many uses for each key have been noted.
constexpr double kUsesPerChoice = 0.25;
// What a miss counts at the next choice.
constexpr double kMemory = 0.97;
// Another leader must be so much better.
constexpr double kBetter = 0.98;
// Steps after which Tend has something to do, and age of what it forgets.
constexpr uint64_t kTendInterval = 16'384;
constexpr int kForgottenAge = 32'768;

// What one use more adds to a heat: log2(1 + 2^-d) steps, of which the two heats differ by d.
constexpr size_t kSums = 7 * KeyHeat::kSteps;
std::array<uint8_t, kSums> MakeSums() {
  std::array<uint8_t, kSums> sums{};
  for (size_t i = 0; i < kSums; ++i) {
    const double ratio = std::exp2(-static_cast<double>(i) / KeyHeat::kSteps);
    sums[i] = static_cast<uint8_t>(std::lround(KeyHeat::kSteps * std::log2(1 + ratio)));
  }
  return sums;
}
const std::array<uint8_t, kSums> kSumOf = MakeSums();

}  // namespace

KeyHeat::KeyHeat(uint64_t bytes, uint64_t seed)
    : seed_(seed), buckets_(std::bit_floor(bytes) / sizeof(Bucket)) {
  assert(bytes >= kLeastTable);
}

uint64_t KeyHeat::BytesFor(uint64_t limit_bytes) {
  return std::clamp(std::bit_ceil(limit_bytes / kTableShare), kLeastTable, kMostTable);
}

KeyHeat::Place KeyHeat::Mix(uint64_t key_hash) const {
  const uint64_t mixed = SplitMix64::Mix(key_hash ^ seed_);
  const auto tag = static_cast<uint16_t>(mixed >> 48);
  // kClasses is of the class of 0.
  return {mixed & (buckets_.size() - 1), tag == 0 ? static_cast<uint16_t>(kClasses) : tag};
}

std::atomic<uint32_t>& KeyHeat::Find(const Place& place, bool& is_known) {
  Bucket& bucket = buckets_[place.bucket];
  std::array<uint32_t, kWays> seen;
  for (size_t i = 0; i < kWays; ++i) {
    seen[i] = bucket.slots[i].load(std::memory_order_relaxed);
    is_known = seen[i] >> 16 == place.tag;
    if (is_known) return bucket.slots[i];
  }
  size_t coldest = 0;
  int most = std::numeric_limits<int>::min();
  for (size_t i = 0; i < kWays; ++i) {
    if (seen[i] == 0) {
      known_keys_.fetch_add(1, std::memory_order_relaxed);
      return bucket.slots[i];
    }
    const auto tag = static_cast<uint16_t>(seen[i] >> 16);
    const int coldness = Coldness(static_cast<uint16_t>(seen[i]), NowOf(GroupOfTag(tag)));
    if (coldness <= most) continue;
    most = coldness;
    coldest = i;
  }
  return bucket.slots[coldest];
}

bool KeyHeat::Use(uint64_t key_hash) {
  const Place place = Mix(key_hash);
  const uint16_t now = NowOf(GroupOfTag(place.tag));
  bool is_known = false;
  std::atomic<uint32_t>& slot = Find(place, is_known);
  uint16_t heat = now;
  if (is_known) {
    const auto before = static_cast<uint16_t>(slot.load(std::memory_order_relaxed));
    const int coldness = Coldness(before, now);
    const auto difference = static_cast<size_t>(std::abs(coldness));
    const uint16_t hotter = coldness < 0 ? before : now;
    heat = static_cast<uint16_t>(hotter + (difference < kSums ? kSumOf[difference] : 0));
  }
  slot.store(uint32_t{place.tag} << 16 | heat, std::memory_order_relaxed);
  return is_known;
}

void KeyHeat::Refresh(uint64_t key_hash) {
  const Place place = Mix(key_hash);
  const uint16_t now = NowOf(GroupOfTag(place.tag));
  bool is_known = false;
  std::atomic<uint32_t>& slot = Find(place, is_known);
  const auto before = static_cast<uint16_t>(slot.load(std::memory_order_relaxed));
  if (is_known && Coldness(before, now) <= 0) return;
  slot.store(uint32_t{place.tag} << 16 | now, std::memory_order_relaxed);
}

void KeyHeat::Missed(uint64_t key_hash) {
  const size_t group = GroupOf(key_hash);
  if (group < kLeaders) misses_[group].fetch_add(1, std::memory_order_relaxed);
}

void KeyHeat::Advance(uint64_t uses, uint64_t keys_in_store) {
  if (keys_in_store == 0) keys_in_store = known_keys_.load(std::memory_order_relaxed);
  const double keys = static_cast<double>(std::max(keys_in_store, kLeastKeys));
  const double steps = static_cast<double>(uses) * kSteps * (1 << kFractionBits) / keys;
  const size_t leader = leader_.load(std::memory_order_relaxed);
  for (size_t group = 0; group < kGroups; ++group) {
    const double half_life = kHalfLives[group < kLeaders ? group : leader];
    clocks_[group].fetch_add(static_cast<uint64_t>(steps / half_life), std::memory_order_relaxed);
  }
  const uint64_t since = uses_.fetch_add(uses, std::memory_order_relaxed) + uses;
  if (static_cast<double>(since) >= kUsesPerChoice * keys) Choose(kUsesPerChoice * keys);
}

void KeyHeat::Choose(double least_uses) {
  const std::unique_lock lock(choice_mutex_, std::try_to_lock);
  if (!lock || static_cast<double>(uses_.load(std::memory_order_relaxed)) < least_uses) return;
  uses_.store(0, std::memory_order_relaxed);
  for (size_t i = 0; i < kLeaders; ++i) {
    const uint64_t misses = misses_[i].exchange(0, std::memory_order_relaxed);
    recent_misses_[i] = kMemory * (recent_misses_[i] + static_cast<double>(misses));
  }
  const auto best = std::ranges::min_element(recent_misses_);
  if (*best >= kBetter * recent_misses_[leader_.load(std::memory_order_relaxed)]) return;
  leader_.store(static_cast<size_t>(best - recent_misses_.begin()), std::memory_order_relaxed);
}

void KeyHeat::Tend() {
  const std::lock_guard guard(choice_mutex_);
  std::array<bool, kGroups> is_due{};
  for (size_t group = 0; group < kGroups; ++group) {
    const uint64_t now = clocks_[group].load(std::memory_order_relaxed) >> kFractionBits;
    is_due[group] = now - forgotten_at_[group] >= kTendInterval;
    if (is_due[group]) forgotten_at_[group] = now;
  }
  if (std::ranges::none_of(is_due, std::identity())) return;
  for (Bucket& bucket : buckets_) {
    for (std::atomic<uint32_t>& slot : bucket.slots) {
      uint32_t seen = slot.load(std::memory_order_relaxed);
      const size_t group = GroupOfTag(static_cast<uint16_t>(seen >> 16));
      if (seen == 0 || !is_due[group]) continue;
      if (Coldness(static_cast<uint16_t>(seen), NowOf(group)) < kForgottenAge) continue;
      const bool is_free = slot.compare_exchange_strong(seen, 0, std::memory_order_relaxed);
      if (is_free) known_keys_.fetch_sub(1, std::memory_order_relaxed);
    }
  }
}

std::optional<int> KeyHeat::ColdnessOf(uint64_t key_hash) const {
  const Place place = Mix(key_hash);
  for (const std::atomic<uint32_t>& slot : buckets_[place.bucket].slots) {
    const uint32_t seen = slot.load(std::memory_order_relaxed);
    if (seen >> 16 != place.tag) continue;
    return Coldness(static_cast<uint16_t>(seen), NowOf(GroupOfTag(place.tag)));
  }
  return std::nullopt;
}

}  // namespace gossamer::gateway
