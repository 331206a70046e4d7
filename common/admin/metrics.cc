#include "common/admin/metrics.h"

#include <glog/logging.h>

#include <iterator>
#include <limits>

namespace gossamer {

prometheus::ClientMetric& MetricFamilyBuilder::NewMetric(MetricLabels labels) {
  prometheus::ClientMetric& metric = family_->metric.emplace_back();
  for (const auto& [name, value] : labels) Label(name, value);
  return metric;
}

MetricFamilyBuilder& MetricFamilyBuilder::Add(MetricLabels labels, double value) {
  CHECK(family_->type != prometheus::MetricType::Histogram) << family_->name;
  prometheus::ClientMetric& metric = NewMetric(labels);
  if (family_->type == prometheus::MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  return *this;
}

MetricFamilyBuilder& MetricFamilyBuilder::Add(MetricLabels labels, const Histogram& latencies) {
  constexpr double kNsPerSecond = 1e9;
  CHECK(family_->type == prometheus::MetricType::Histogram) << family_->name;
  prometheus::ClientMetric::Histogram& histogram = NewMetric(labels).histogram;
  histogram.sample_count = latencies.count();
  histogram.sample_sum = static_cast<double>(latencies.sum()) / kNsPerSecond;
  for (const uint64_t bound : kLatencyBoundsNs) {
    histogram.bucket.push_back(
        {latencies.CountUpTo(bound), static_cast<double>(bound) / kNsPerSecond});
  }
  histogram.bucket.push_back({latencies.count(), std::numeric_limits<double>::infinity()});
  return *this;
}

MetricFamilyBuilder& MetricFamilyBuilder::Label(std::string_view name, std::string_view value) {
  CHECK(!family_->metric.empty()) << family_->name;
  family_->metric.back().label.push_back({std::string(name), std::string(value)});
  return *this;
}

MetricFamilyBuilder Families::New(std::string_view name, std::string_view help,
                                  prometheus::MetricType type) {
  prometheus::MetricFamily& family = families_.emplace_back();
  family.name = name;
  family.help = help;
  family.type = type;
  return MetricFamilyBuilder(&family);
}

void Families::Append(std::vector<prometheus::MetricFamily> families) {
  families_.insert(families_.end(), std::make_move_iterator(families.begin()),
                   std::make_move_iterator(families.end()));
}

}  // namespace gossamer
