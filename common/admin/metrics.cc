#include "common/admin/metrics.h"

#include <glog/logging.h>

#include <limits>

namespace gossamer {
namespace {

constexpr double kNsPerSecond = 1e9;

}  // namespace

prometheus::ClientMetric& MetricFamilyBuilder::NewMetric(MetricLabels labels) {
  prometheus::ClientMetric& metric = family_->metric.emplace_back();
  for (const auto& [name, value] : labels) {
    metric.label.push_back({std::string(name), std::string(value)});
  }
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

MetricFamilyBuilder Families::New(std::string_view name, std::string_view help,
                                  prometheus::MetricType type) {
  prometheus::MetricFamily& family = families_.emplace_back();
  family.name = name;
  family.help = help;
  family.type = type;
  return MetricFamilyBuilder(&family);
}

MetricFamilyBuilder Families::Counter(std::string_view name, std::string_view help) {
  return New(name, help, prometheus::MetricType::Counter);
}

MetricFamilyBuilder Families::Gauge(std::string_view name, std::string_view help) {
  return New(name, help, prometheus::MetricType::Gauge);
}

MetricFamilyBuilder Families::LatencyHistogram(std::string_view name, std::string_view help) {
  return New(name, help, prometheus::MetricType::Histogram);
}

}  // namespace gossamer
