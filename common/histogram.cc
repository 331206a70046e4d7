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

HistogramParts Histogram::Parts() const {
  HistogramParts parts{.counts = {}, .sum = sum_, .min = min(), .max = max_};
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    if (counts_[bucket] != 0) parts.counts.emplace_back(bucket, counts_[bucket]);
  }
  return parts;
}

std::optional<Histogram> Histogram::Assemble(const HistogramParts& parts) {
  Histogram histogram;
  if (parts.counts.empty()) {
    const bool is_empty = parts.sum == 0 && parts.min == 0 && parts.max == 0;
    return is_empty ? std::optional(std::move(histogram)) : std::nullopt;
  }
  uint32_t next = 0;
  for (const auto& [bucket, count] : parts.counts) {
    if (bucket < next || bucket >= kBuckets || count == 0) return std::nullopt;
    next = bucket + 1;
    histogram.counts_[bucket] = count;
    histogram.count_ += count;
  }
  if (parts.min > parts.max || BucketOf(parts.min) != parts.counts.front().first ||
      BucketOf(parts.max) != parts.counts.back().first) {
    return std::nullopt;
  }
  histogram.sum_ = parts.sum;
  histogram.min_ = parts.min;
  histogram.max_ = parts.max;
  return histogram;
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
