#include "compute/bench/process_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/random.h"
#include "proto/store_record.h"

namespace gossamer::bench {
namespace {

using ::testing::HasSubstr;

// Every number of the counters is `number`.
Counters CountersOf(uint64_t number) {
  Counters counters;
  for (WireCounts& wire : counters.wire) {
    wire = {number, number, number, number, number, number, number, number};
  }
  counters.cache = {number, number, number, number, number, number, number, number};
  counters.locks = {number, number, number, number};
  counters.rereads = number;
  return counters;
}

PhaseResult PhaseOf(uint64_t number) {
  PhaseResult phase;
  phase.operations = 10 * number;
  phase.scanned_keys = 20 * number;
  phase.seconds = static_cast<double>(number) / 3;
  phase.cpu_seconds = static_cast<double>(number) / 4;
  phase.server_cpu_seconds = static_cast<double>(number) / 8;
  phase.counters = CountersOf(number);
  for (uint64_t i = 0; i < number; ++i) {
    phase.errors.Add(MakeError(Code::kNotFound, "of " + std::to_string(number)));
  }
  return phase;
}

TEST(MergePhasesTest, FiguresAreExactSums) {
  std::vector<std::string> texts;
  for (const uint64_t number : {1u, 2u, 4u}) {
    BenchReport report;
    report.load = PhaseOf(number);
    report.run = PhaseOf(8 * number);
    texts.push_back(EncodePhases(report));
  }
  BenchReport merged;
  merged.load = PhaseOf(100);  // its own, which is in the texts too
  ASSERT_TRUE(MergePhases(texts, {"ant", "bee", "cow"}, merged));
  EXPECT_EQ(merged.load.operations, 70u);
  EXPECT_EQ(merged.load.scanned_keys, 140u);
  EXPECT_EQ(merged.load.seconds, 4.0 / 3);
  EXPECT_EQ(merged.load.cpu_seconds, 7.0 / 4);
  EXPECT_EQ(merged.load.server_cpu_seconds, 4.0 / 8);
  EXPECT_EQ(merged.load.errors.total(), 7u);
  EXPECT_EQ(merged.load.errors.counts[static_cast<size_t>(Code::kNotFound)], 7u);
  EXPECT_EQ(merged.load.errors.messages[static_cast<size_t>(Code::kNotFound)], "of 1");
  EXPECT_FALSE(merged.load.gave_up || merged.load.interrupted || merged.interrupted);
  EXPECT_EQ(merged.run.operations, 560u);
  // Each counter, of each class.
  EXPECT_EQ(ToJson(merged).at("load").at("wire").dump(), [] {
    BenchReport sevens;
    sevens.load.counters = CountersOf(7);
    return ToJson(sevens).at("load").at("wire").dump();
  }());
  EXPECT_EQ(merged.load.counters.cache.bytes, 7u) << "each process has a cache of its own";
  EXPECT_EQ(merged.load.counters.cache.along_right, 7u);
  EXPECT_EQ(merged.load.counters.locks.remote_retries, 7u);
  EXPECT_EQ(merged.load.counters.rereads, 7u);

  ASSERT_EQ(merged.processes.size(), 3u);
  EXPECT_EQ(merged.processes[1].host, "bee");
  EXPECT_EQ(merged.processes[1].load.operations, 20u);
  EXPECT_EQ(merged.processes[1].load.failed, 2u);
  EXPECT_EQ(merged.processes[1].load.seconds, 2.0 / 3);
  EXPECT_EQ(merged.processes[1].load.operations_per_second, 20 / (2.0 / 3));
  EXPECT_EQ(merged.processes[2].run.operations, 320u);
  merged.options.share = {.processes = 3, .rank = 0};
  merged.loaded = merged.ran = true;
  EXPECT_THAT(ToText(merged), HasSubstr("bee"));
  const nlohmann::ordered_json json = ToJson(merged);
  EXPECT_EQ(json.at("schema"), 1);
  EXPECT_EQ(json.at("processes").at(2).at("rank"), 2);
  EXPECT_EQ(json.at("processes").at(2).at("host"), "cow");
  EXPECT_EQ(json.at("processes").at(2).at("run").at("operations"), 320);
  EXPECT_FALSE(json.contains("rank"));
}

TEST(MergePhasesTest, PercentilesAreThoseOfAllSamples) {
  Random random(11);
  std::vector<std::string> texts;
  Histogram all;
  for (int process = 0; process < 4; ++process) {
    BenchReport report;
    for (int i = 0; i < 20'000; ++i) {
      // One process is a hundred times slower than the others.
      const uint64_t sample = (process == 3 ? 100 : 1) * (random.Next() >> random.Below(40));
      report.run.latency_ns[0].Record(sample);
      all.Record(sample);
    }
    texts.push_back(EncodePhases(report));
  }
  BenchReport merged;
  ASSERT_TRUE(MergePhases(texts, {"a", "b", "c", "d"}, merged));
  EXPECT_EQ(LatencyJson(merged.run.latency(BenchOperation::kRead)), LatencyJson(all));
  for (double percent = 0; percent <= 100; percent += 0.5) {
    EXPECT_EQ(merged.run.latency_ns[0].Percentile(percent), all.Percentile(percent));
  }
}

TEST(MergePhasesTest, OneProcessThatGaveUpShows) {
  BenchReport good;
  BenchReport bad;
  bad.run.gave_up = true;
  bad.run.server_cpu_seconds = std::nullopt;
  bad.load.interrupted = true;
  BenchReport merged;
  ASSERT_TRUE(MergePhases({EncodePhases(good), EncodePhases(bad)}, {"a", "b"}, merged));
  EXPECT_TRUE(merged.run.gave_up && merged.load.interrupted && merged.interrupted);
  EXPECT_FALSE(merged.load.gave_up || merged.run.interrupted);
  EXPECT_EQ(merged.run.server_cpu_seconds, std::nullopt);
}

TEST(MergePhasesTest, WhatIsNoResultIsRefusedWithItsHost) {
  BenchReport report;
  const std::string good = EncodePhases(report);
  for (const std::string& text : {std::string(), std::string("{}"), good.substr(1), good + "x"}) {
    const Status merged = MergePhases({good, text}, {"ant", "bee"}, report);
    ASSERT_FALSE(merged) << text;
    EXPECT_EQ(merged.error().code, Code::kCorruption);
    EXPECT_THAT(merged.error().message, HasSubstr("rank 1 (host bee)"));
  }
}

TEST(MergePhasesTest, TheLargestResultFitsABootstrap) {
  BenchReport report;
  for (PhaseResult* phase : {&report.load, &report.run}) {
    for (Histogram& histogram : phase->latency_ns) {
      // All latencies from 1 ns to two minutes.
      for (uint64_t value = 1; value < uint64_t{1} << 37; value += 1 + value / 64) {
        histogram.RecordMany(value, uint64_t{1} << 36);
      }
    }
  }
  EXPECT_LT(EncodePhases(report).size(), kMaxStoreRecordBytes - 100);
}

}  // namespace
}  // namespace gossamer::bench
