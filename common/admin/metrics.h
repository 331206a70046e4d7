// Builds metric families for /metrics, so that those of all programs are named and shaped alike.
//
//   Families families;
//   families.Counter("gossamer_rereads_total", "Units read again.", counters.rereads);
//   families.Counter("gossamer_operations_total", "Operations by class.")
//       .Add({{"class", "read"}}, 12)
//       .Add({{"class", "scan"}}, 3);
//   return families.Take();
//
// Names: gossamer_THING_UNIT, base units (bytes, seconds), _total behind what only grows.
// docs/metrics.md lists all of them.
// Thread-safety: none. Cost: some allocations for each figure.
#pragma once

#include <prometheus/metric_family.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/histogram.h"

namespace gossamer {

using MetricLabels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

// Upper bounds of the buckets of each latency histogram, in nanoseconds: 1 µs to 10 s in steps of
// 1, 2.5, 5.
inline constexpr std::array<uint64_t, 22> kLatencyBoundsNs = {
    1'000,         2'500,         5'000,         10'000,        25'000,      50'000,
    100'000,       250'000,       500'000,       1'000'000,     2'500'000,   5'000'000,
    10'000'000,    25'000'000,    50'000'000,    100'000'000,   250'000'000, 500'000'000,
    1'000'000'000, 2'500'000'000, 5'000'000'000, 10'000'000'000};

// One family: figures of one name that differ in their labels.
class MetricFamilyBuilder {
 public:
  explicit MetricFamilyBuilder(prometheus::MetricFamily* family) : family_(family) {}

  MetricFamilyBuilder& Add(MetricLabels labels, uint64_t value) {
    return Add(labels, static_cast<double>(value));
  }
  MetricFamilyBuilder& Add(MetricLabels labels, double value);
  // A histogram family only. `latencies`: in nanoseconds; the family is in seconds. A value counts
  // below a bound if its bucket of `latencies` does, within that one's error of 1.6 %.
  MetricFamilyBuilder& Add(MetricLabels labels, const Histogram& latencies);
  // One more label of the figure that was added last.
  MetricFamilyBuilder& Label(std::string_view name, std::string_view value);

 private:
  prometheus::ClientMetric& NewMetric(MetricLabels labels);

  prometheus::MetricFamily* family_;
};

class Families {
 public:
  // Valid until the next family is added. `help`: a sentence.
  MetricFamilyBuilder Counter(std::string_view name, std::string_view help) {
    return New(name, help, prometheus::MetricType::Counter);
  }
  MetricFamilyBuilder Gauge(std::string_view name, std::string_view help) {
    return New(name, help, prometheus::MetricType::Gauge);
  }
  MetricFamilyBuilder LatencyHistogram(std::string_view name, std::string_view help) {
    return New(name, help, prometheus::MetricType::Histogram);
  }
  // Of one figure, without labels.
  template <typename Value>
  void Counter(std::string_view name, std::string_view help, Value value) {
    Counter(name, help).Add({}, value);
  }
  template <typename Value>
  void Gauge(std::string_view name, std::string_view help, Value value) {
    Gauge(name, help).Add({}, value);
  }

  void Append(std::vector<prometheus::MetricFamily> families);
  std::vector<prometheus::MetricFamily> Take() { return std::move(families_); }

 private:
  MetricFamilyBuilder New(std::string_view name, std::string_view help,
                          prometheus::MetricType type);

  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace gossamer
