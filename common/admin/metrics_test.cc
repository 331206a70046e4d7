#include "common/admin/metrics.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include "common/admin/process_metrics.h"
#include "common/admin/testing/metrics_text.h"
#include "common/version.h"

namespace gossamer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Text(const std::vector<prometheus::MetricFamily>& families) {
  return prometheus::TextSerializer().Serialize(families);
}

TEST(MetricsTest, FamiliesHaveTheGoldenText) {
  Families families;
  families.Counter("gossamer_things_total", "Things.")
      .Add({{"class", "a"}}, uint64_t{12'345'678'901})
      .Add({{"class", "b\"\\\n"}}, uint64_t{0});
  families.Gauge("gossamer_size_bytes", "Size.").Add({}, 1.5);
  const std::string text = Text(families.Take());
  EXPECT_EQ(text,
            "# HELP gossamer_things_total Things.\n"
            "# TYPE gossamer_things_total counter\n"
            "gossamer_things_total{class=\"a\"} 12345678901\n"
            "gossamer_things_total{class=\"b\\\"\\\\\\n\"} 0\n"
            "# HELP gossamer_size_bytes Size.\n"
            "# TYPE gossamer_size_bytes gauge\n"
            "gossamer_size_bytes 1.5\n");
  EXPECT_THAT(ProblemsOfMetrics(text), IsEmpty());
}

TEST(MetricsTest, LatenciesAreInSecondsAndCumulative) {
  Histogram latencies;
  latencies.RecordMany(100, 3);      // below 1 µs
  latencies.RecordMany(2'000, 4);    // below 2.5 µs
  latencies.Record(20'000'000'000);  // above all bounds
  Families families;
  families.LatencyHistogram("gossamer_command_duration_seconds", "Time.")
      .Add({{"command", "get"}}, latencies);
  const std::string text = Text(families.Take());
  EXPECT_THAT(text, AllOf(HasSubstr("_bucket{command=\"get\",le=\"1e-06\"} 3\n"),
                          HasSubstr("_bucket{command=\"get\",le=\"2.5e-06\"} 7\n"),
                          HasSubstr("_bucket{command=\"get\",le=\"10\"} 7\n"),
                          HasSubstr("_bucket{command=\"get\",le=\"+Inf\"} 8\n"),
                          HasSubstr("_count{command=\"get\"} 8\n")));
  EXPECT_THAT(ProblemsOfMetrics(text), IsEmpty());
}

TEST(MetricsTest, ProcessMetricsAreClean) {
  Families families;
  ProcessMetrics().AddTo(families);
  const std::string text = Text(families.Take());
  EXPECT_THAT(ProblemsOfMetrics(text), IsEmpty());
  EXPECT_THAT(text, HasSubstr(fmt::format(
                        "gossamer_build_info{{version=\"{}\",compiler=\"{}\",type=\"{}\"}} 1\n",
                        BuildVersion(), BuildCompiler(), BuildType())));
}

TEST(MetricsTest, TheCheckFindsProblems) {
  EXPECT_EQ(ProblemsOfMetrics("a 1\n").size(), 1u);
  EXPECT_EQ(ProblemsOfMetrics("# HELP a Text.\n# TYPE a counter\na 1\na 1\n").size(), 2u);
  EXPECT_EQ(
      ProblemsOfMetrics("# HELP a_total Text.\n# TYPE a_total counter\na_total{b=c} 1\n").size(),
      1u);
}

}  // namespace
}  // namespace gossamer
