#include "common/histogram.h"

#include <algorithm>
#include <cmath>

namespace gossamer {

void Histogram::Merge(const Histogram& other) {
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) counts_[bucket] += other.counts_[bucket];
  count_ += other.count_;
  sum_ += other.sum_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

double Histogram::Mean() const {
  return count_ == 0 ? 0.0 : static_cast<double>(sum_) / static_cast<double>(count_);
}

uint64_t Histogram::Percentile(double percent) const {
  if (count_ == 0) return 0;
  const double wanted =
      std::ceil(std::clamp(percent, 0.0, 100.0) / 100 * static_cast<double>(count_));
  const uint64_t rank = std::clamp<uint64_t>(static_cast<uint64_t>(wanted), 1, count_);
  uint64_t seen = 0;
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    seen += counts_[bucket];
    if (seen >= rank) return std::clamp(UpperBound(bucket), min_, max_);
  }
  return max_;
}

uint64_t Histogram::CountUpTo(uint64_t value) const {
  uint64_t count = 0;
  for (uint32_t bucket = 0; bucket < kBuckets && UpperBound(bucket) <= value; ++bucket) {
    count += counts_[bucket];
  }
  return count;
}

}  // namespace gossamer
