#include "compute/metrics/counters_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <nlohmann/json.hpp>

#include "common/admin/testing/metrics_text.h"

namespace gossamer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Every field has a number of its own, so that no two can be taken for each other.
Counters Numbered() {
  Counters counters;
  uint64_t next = 100;
  for (WireCounts& wire : counters.wire) {
    wire = {next, next + 1, next + 2, next + 3, next + 4, next + 5, next + 6, next + 7};
    next += 8;
  }
  counters.cache = {.bytes = 1,
                    .hits = 2,
                    .misses = 3,
                    .stale = 4,
                    .evictions = 5,
                    .filled = 6,
                    .along = 17,
                    .along_right = 10};
  counters.locks = {.acquired = 11, .handed_over = 12, .combined = 13, .remote_retries = 14};
  counters.rereads = 20;
  return counters;
}

TEST(CountersMetricsTest, EachCounterHasItsFamily) {
  Families families;
  AddCounters(Numbered(), families);
  const std::string text = prometheus::TextSerializer().Serialize(families.Take());
  EXPECT_THAT(ProblemsOfMetrics(text), IsEmpty());
  EXPECT_THAT(text, AllOf(HasSubstr("gossamer_operations_total{class=\"read\"} 100\n"),
                          HasSubstr("gossamer_operations_total{class=\"merge\"} 148\n"),
                          HasSubstr("gossamer_round_trips_total{class=\"update\"} 109\n"),
                          HasSubstr("gossamer_verbs_total{class=\"read\",verb=\"read\"} 102\n"),
                          HasSubstr("gossamer_verbs_total{class=\"read\",verb=\"write\"} 103\n"),
                          HasSubstr("gossamer_verbs_total{class=\"read\",verb=\"atomic\"} 104\n"),
                          HasSubstr("gossamer_verbs_total{class=\"read\",verb=\"send\"} 105\n")));
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("gossamer_verb_bytes_total{class=\"read\",direction=\"read\"} 106\n"),
            HasSubstr("gossamer_verb_bytes_total{class=\"read\",direction=\"written\"} 107\n"),
            HasSubstr("gossamer_cache_bytes 1\n"),
            HasSubstr("gossamer_cache_lookups_total{result=\"hit\"} 2\n"),
            HasSubstr("gossamer_cache_lookups_total{result=\"miss\"} 3\n"),
            HasSubstr("gossamer_cache_stale_total 4\n"),
            HasSubstr("gossamer_cache_evictions_total 5\n"),
            HasSubstr("gossamer_cache_fills_total 6\n"),
            HasSubstr("gossamer_cache_blocks_total{result=\"right\"} 10\n"),
            HasSubstr("gossamer_cache_blocks_total{result=\"wrong\"} 7\n")));
  EXPECT_THAT(text, AllOf(HasSubstr("gossamer_locks_acquired_total 11\n"),
                          HasSubstr("gossamer_locks_handed_over_total 12\n"),
                          HasSubstr("gossamer_locks_combined_writes_total 13\n"),
                          HasSubstr("gossamer_lock_retries_total 14\n"),
                          HasSubstr("gossamer_rereads_total 20\n")));
}

TEST(CountersMetricsTest, StateHasEachCounter) {
  const auto state = CountersState(Numbered());
  EXPECT_EQ(state["operations"].size(), kOperationClasses);
  EXPECT_EQ(state["operations"]["scan"].dump(),
            R"({"operations":140,"round_trips":141,"reads":142,"writes":143,"atomics":144,)"
            R"("sends":145,"bytes_read":146,"bytes_written":147})");
  EXPECT_EQ(state["cache"].dump(),
            R"({"bytes":1,"hits":2,"misses":3,"stale":4,"evictions":5,"filled":6,)"
            R"("along":17,"along_right":10})");
  EXPECT_EQ(state["locks"].dump(),
            R"({"acquired":11,"handed_over":12,"combined":13,"remote_retries":14})");
  EXPECT_EQ(state["rereads"], 20);
}

}  // namespace
}  // namespace gossamer
