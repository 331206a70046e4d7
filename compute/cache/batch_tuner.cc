#include "compute/cache/batch_tuner.h"

#include <algorithm>

namespace gossamer {

BatchTuner::Choice BatchTuner::Next(size_t keys) {
  Class& chunks = classes_[ClassOf(keys)];
  const uint32_t sizes = SizesOf(ClassOf(keys));
  const bool is_settling = chunks.trials < kWindow * sizes;
  const bool is_trial = sizes > 1 && (is_settling || ++chunks.chunks % kTrialEvery == 0);
  const uint32_t index = is_trial ? chunks.trials % sizes : chunks.best;
  return {static_cast<uint32_t>(keys), kSizes[index], is_trial};
}

void BatchTuner::Report(const Choice& trial, Clock::duration took) {
  Class& chunks = classes_[ClassOf(trial.keys)];
  const uint32_t sizes = SizesOf(ClassOf(trial.keys));
  const uint32_t index = chunks.trials % sizes;
  const uint32_t round = chunks.trials / sizes;
  ++chunks.trials;
  const auto nanoseconds = std::chrono::duration<float, std::nano>(took).count();
  chunks.nanoseconds[index][round % kWindow] = nanoseconds / static_cast<float>(trial.keys);

  std::array<float, kWindow> sorted = chunks.nanoseconds[index];
  const uint32_t known = std::min(round + 1, kWindow);
  const auto median = sorted.begin() + known / 2;
  std::nth_element(sorted.begin(), median, sorted.begin() + known);
  chunks.medians[index] = *median;
  const auto end = chunks.medians.begin() + std::min(sizes, chunks.trials);
  chunks.best =
      static_cast<uint32_t>(std::min_element(chunks.medians.begin(), end) - chunks.medians.begin());
}

}  // namespace gossamer
