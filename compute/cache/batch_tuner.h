// BatchTuner: finds the number of keys that a session should traverse together.
//
// The best size depends on the size of the cache, the processor and the load of the memory bus, so
// the tuner measures. A chunk of keys is traversed in batches of some size; one chunk in
// kTrialEvery is a *trial*: it takes the next size in turn, and its time for a key is reported.
// Each size keeps its last kWindow trials, and the size with the least median is the best. So
//
// - all sizes are compared over the same time, and old trials do not count;
// - a trial that was interrupted by other threads does not count either;
// - a choice that is no trial reads no clock, and trials of a slow size cost a kTrialEvery-th
//   part;
// - a new workload is followed after some kWindow / 2 * kSizes.size() * kTrialEvery chunks.
//
// The first chunks are all trials, until each size has kWindow of them: some 5,000 keys.
//
// Chunks of different lengths are different workloads: a chunk of 4 keys cannot tell what batches
// of 64 are worth. Each power of two of lengths is tuned by itself, among the sizes that differ for
// it. Size 1 is always among them, so that a session does not batch where batching loses.
//
// Thread-safety: none; one for each session.
// Cost: some instructions; two readings of the clock for a trial.
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "compute/cache/traversal.h"

namespace gossamer {

class BatchTuner {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::array<uint32_t, 5> kSizes = {1, 8, 16, 32, 64};
  static_assert(kSizes.back() == kMaxGroup);
  static constexpr uint32_t kTrialEvery = 64;
  static constexpr uint32_t kWindow = 15;

  struct Choice {
    uint32_t keys;  // of the chunk
    uint32_t size;
    bool is_trial;
  };

  // The size for the next chunk, of 1 to kMaxGroup keys. If it is a trial, `Report` follows.
  [[nodiscard]] Choice Next(size_t keys);
  // The chunk of the trial took that long.
  void Report(const Choice& trial, Clock::duration took);

 private:
  // Chunks of one length, within a power of two.
  struct Class {
    std::array<std::array<float, kWindow>, kSizes.size()> nanoseconds{};  // for a key
    std::array<float, kSizes.size()> medians{};
    uint32_t chunks = 0;
    uint32_t trials = 0;
    uint32_t best = 0;  // of kSizes
  };
  static constexpr size_t ClassOf(size_t keys) { return static_cast<size_t>(std::bit_width(keys)); }
  // How many of kSizes differ for a class: up to the one that takes its longest chunk as a whole.
  static constexpr uint32_t SizesOf(size_t number) {
    uint32_t count = 1;
    while (count < kSizes.size() && kSizes[count - 1] + 1 < size_t{1} << number) ++count;
    return count;
  }

  std::array<Class, std::bit_width(kMaxGroup) + 1> classes_{};
};

}  // namespace gossamer
