// BatchTuner: finds the number of keys that a session should traverse together.
//
// Nobody can know the best size beforehand: it depends on the size of the cache, the processor and
// the other load of the memory bus. The tuner measures. Each size has an average time for a key,
// in which recent batches count most. One batch in kExploreEvery tries another size in turn, the
// others take the best: so it follows a change of workload within some thousand keys, and what
// trying costs is bounded. Size 1 is one of the sizes, so that where batching loses, it ends.
//
// Thread-safety: none; one for each session.
// Cost: two readings of the clock for a batch.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gossamer {

class BatchTuner {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::array<uint32_t, 5> kSizes = {1, 8, 16, 32, 64};

  // The size for the next batch. Follow it by `Report`.
  uint32_t Next() {
    const bool explores = ++batches_ % kExploreEvery == 0 || batches_ <= 2 * kSizes.size();
    if (explores) {
      tried_ = (tried_ + 1) % kSizes.size();
      current_ = tried_;
    } else {
      current_ = best();
    }
    return kSizes[current_];
  }
  // The batch had `keys` keys and took that long. Smaller batches than its size tell nothing of it.
  void Report(size_t keys, Clock::duration took) {
    if (keys < kSizes[current_] || keys == 0) return;
    const double per_key = static_cast<double>(took.count()) / static_cast<double>(keys);
    double& mean = nanoseconds_[current_];
    mean = mean == 0 ? per_key : mean + (per_key - mean) * kWeight;
  }

  // The index of the size that was the fastest; one that was not measured yet comes first.
  size_t best() const {
    return static_cast<size_t>(std::ranges::min_element(nanoseconds_) - nanoseconds_.begin());
  }

 private:
  static constexpr uint64_t kExploreEvery = 32;
  static constexpr double kWeight = 1.0 / 8;

  std::array<double, kSizes.size()> nanoseconds_{};  // for a key; 0: not measured yet
  uint64_t batches_ = 0;
  size_t tried_ = 0;
  size_t current_ = 0;
};

}  // namespace gossamer
