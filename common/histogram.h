// Histogram: counts of latencies, or of any 64-bit numbers, in log-linear buckets.
//
// Invariant (relative error): a bucket's width is at most 1/64 of its lowest value, and values
// below 128 have buckets of their own. So a percentile is exact below 128 and at most 1.6 % too
// high above. It never exceeds `max`, which is exact, as are count, sum and min.
//
// The idea is HdrHistogram's. This one has a fixed range (all of 64 bits), so that any two merge,
// and recording is a shift and an increment (about 1 ns). 30 KiB each, allocated only on
// construction.
// Thread-safety: none; use one for each thread, and merge at the end.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace gossamer {

// A histogram on its way to another process.
struct HistogramParts {
  std::vector<std::pair<uint32_t, uint64_t>>
      counts;  // of the buckets that are not empty, by rising bucket
  uint64_t sum = 0;
  uint64_t min = 0;
  uint64_t max = 0;
};

class Histogram {
 public:
  Histogram() : counts_(kBuckets) {}
  // The histogram that these are the parts of; nullopt if they are those of none.
  static std::optional<Histogram> Assemble(const HistogramParts& parts);
  HistogramParts Parts() const;

  void Record(uint64_t value) { RecordMany(value, 1); }
  void RecordMany(uint64_t value, uint64_t times) {
    if (times == 0) return;
    counts_[BucketOf(value)] += times;
    count_ += times;
    sum_ += value * times;
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
  }
  void Merge(const Histogram& other);

  uint64_t count() const { return count_; }
  uint64_t sum() const { return sum_; }
  uint64_t min() const { return count_ == 0 ? 0 : min_; }
  uint64_t max() const { return max_; }
  double Mean() const;

  // The smallest value that at least `percent` per cent of the values do not exceed (0 when empty),
  // within the error above. `percent` in [0, 100].
  uint64_t Percentile(double percent) const;
  // The number of values in buckets that end at or below `value`.
  uint64_t CountUpTo(uint64_t value) const;
  uint64_t CountIn(uint32_t bucket) const { return counts_[bucket]; }

  // The bucket of a value in [128, 2^64) is its exponent and the 6 bits below its highest one.
  static constexpr uint32_t kSubBucketBits = 6;
  static constexpr uint32_t kSubBuckets = 1u << kSubBucketBits;
  static constexpr uint32_t kBuckets = (64 - kSubBucketBits + 1) * kSubBuckets;

  static constexpr uint32_t BucketOf(uint64_t value) {
    if (value < 2 * kSubBuckets) return static_cast<uint32_t>(value);
    const auto shift = static_cast<uint32_t>(std::bit_width(value)) - kSubBucketBits - 1;
    return shift * kSubBuckets + static_cast<uint32_t>(value >> shift);
  }
  // The greatest value of a bucket.
  static constexpr uint64_t UpperBound(uint32_t bucket) {
    if (bucket < 2 * kSubBuckets) return bucket;
    const uint32_t shift = bucket / kSubBuckets - 1;
    const uint64_t leading = bucket % kSubBuckets + kSubBuckets;
    return (leading << shift) + ((uint64_t{1} << shift) - 1);
  }

 private:
  std::vector<uint64_t> counts_;
  uint64_t count_ = 0;
  uint64_t sum_ = 0;
  uint64_t min_ = ~uint64_t{0};
  uint64_t max_ = 0;
};

static_assert(Histogram::BucketOf(~uint64_t{0}) == Histogram::kBuckets - 1);
static_assert(Histogram::UpperBound(Histogram::kBuckets - 1) == ~uint64_t{0});

}  // namespace gossamer
