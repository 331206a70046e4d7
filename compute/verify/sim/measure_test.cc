// Measurements of the designs: the same from the same seed, with the expected costs without
// contention, and the expected effect of Sherman's techniques with contention. Time is virtual, so
// figures are exact on any machine.
#include "compute/verify/sim/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "common/testing/seed.h"
#include "compute/verify/sim/measure_report.h"

namespace gossamer::simulator {
namespace {

using ::testing::HasSubstr;

MeasureOptions SmallOptions() {
  MeasureOptions options;
  options.seed = TestSeed();
  options.records = 5'000;
  options.milliseconds = 1;
  return options;
}

Measurement Need(const MeasureOptions& options, const MeasuredDesign& design) {
  Result<Measurement> measured = Measure(options, design);
  EXPECT_TRUE(measured) << measured.error().ToString();
  return measured ? std::move(measured.value()) : Measurement();
}

const MeasuredDesign& Naive() { return DesignLadder().front(); }
const MeasuredDesign& Sherman() { return DesignLadder()[DesignLadder().size() - 2]; }
const MeasuredDesign& Product() { return DesignLadder().back(); }

TEST(MeasureTest, TheSameSeedGivesTheSameFigures) {
  MeasureOptions options = SmallOptions();
  options.compute_servers = 2;
  options.threads = 4;
  for (const MeasuredDesign& design : {Sherman(), Product()}) {
    const auto report = [&options, &design] {
      const PlannedMeasurement planned{"techniques", options, design};
      const Measurement measured = Need(options, planned.design);
      return ReportJson({&planned, 1}, {&measured, 1}).dump();
    };
    const std::string first = report();
    EXPECT_EQ(first, report());
    ++options.seed;
    EXPECT_NE(first, report());
  }
}

TEST(MeasureTest, TheLadderIsShermansAndTheProductIsBeside) {
  ASSERT_EQ(DesignLadder().size(), sherman::kLadder.size() + 1);
  for (size_t i = 0; i < sherman::kLadder.size(); ++i) {
    EXPECT_EQ(DesignLadder()[i].research, sherman::kLadder[i].design);
  }
  EXPECT_EQ(*Sherman().research, sherman::Design());
  EXPECT_EQ(Product().name, "gossamer");
  EXPECT_FALSE(Product().research);
}

TEST(MeasureTest, WithoutContentionUpdatesCostTheirRoundTripsAndTheirTime) {
  MeasureOptions options = SmallOptions();
  options.compute_servers = 1;
  options.threads = 1;
  options.update_percent = 100;
  // CAS; READ of the leaf; WRITE of the leaf; WRITE of the lock.
  const Measurement naive = Need(options, Naive());
  EXPECT_EQ(naive.PerUpdate(naive.counters.of(OperationClass::kUpdate).round_trips), 4);
  EXPECT_EQ(naive.counters.locks.remote_retries, 0u);
  EXPECT_EQ(naive.read_ns.count(), 0u);
  // CAS; READ of the leaf; WRITEs of the entry and the lock.
  const Measurement sherman = Need(options, Sherman());
  EXPECT_EQ(sherman.PerUpdate(sherman.counters.of(OperationClass::kUpdate).round_trips), 3);
  // CAS and READ of a group; WRITE of it and CAS. One more if an entry overflowed and no hint said
  // so.
  const Measurement all = Need(options, Product());
  const double round_trips = all.PerUpdate(all.counters.of(OperationClass::kUpdate).round_trips);
  EXPECT_GE(round_trips, 2);
  EXPECT_LE(round_trips, 2.1);
  // One operation at a time: updates take all of the time.
  EXPECT_NEAR(all.update_ns.Mean() * all.updates_per_second(), 1e9, 2e7);
}

TEST(MeasureTest, UpdatesAreTheShareThatWasAskedFor) {
  MeasureOptions options = SmallOptions();
  options.update_percent = 20;
  const Measurement measured = Need(options, Sherman());
  const auto updates = static_cast<double>(measured.update_ns.count());
  EXPECT_GT(updates, 1000);
  EXPECT_NEAR(updates / (updates + static_cast<double>(measured.read_ns.count())), 0.2, 0.02);
}

// Asserts less than docs/performance.md reports for more records and a longer time.
TEST(MeasureTest, SkewedUpdatesAreSlowWithoutTheTechniquesAndFasterWithThem) {
  MeasureOptions options = SmallOptions();
  options.records = 20'000;
  options.ranks = options.records;
  options.milliseconds = 4;
  const Measurement naive = Need(options, Naive());
  const Measurement hierarchical = Need(
      options, {"hierarchical", sherman::Design{false, false, /*hierarchical_locks=*/true, false}});
  const Measurement sherman = Need(options, Sherman());
  const Measurement product = Need(options, Product());
  const auto times = [](const Measurement& one, const Measurement& other) {
    return one.operations_per_second() / other.operations_per_second();
  };
  EXPECT_GT(times(hierarchical, naive), 1.15);
  EXPECT_GT(times(sherman, naive), 1.25);
  EXPECT_GT(times(product, sherman), 2);
  EXPECT_LT(sherman.update_ns.Percentile(99) * 3, naive.update_ns.Percentile(99) * 2);
  // With local locks, operations of one compute server do not contend with each other.
  EXPECT_GT(naive.PerUpdate(naive.counters.locks.remote_retries), 1);
  EXPECT_LT(hierarchical.PerUpdate(hierarchical.counters.locks.remote_retries), 1);
  EXPECT_LT(sherman.PerUpdate(sherman.counters.locks.remote_retries), 1);
  EXPECT_EQ(naive.counters.locks.handed_over, 0u);
  EXPECT_GT(sherman.counters.locks.handed_over, 0u);
}

TEST(MeasureTest, WhatIsNoMeasurementIsASentence) {
  struct Case {
    void (*change)(MeasureOptions&);
    const char* sentence;
  };
  for (const Case& one :
       {Case{[](auto& o) { o.threads = 0; }, "--threads=0: give 1 to 64"},
        Case{[](auto& o) { o.compute_servers = 65; }, "--clients=65: give 1 to 64"},
        Case{[](auto& o) { o.memory_servers = 0; }, "--servers=0: give 1 to 16"},
        Case{[](auto& o) { o.coroutines = 0; }, "--coroutines=0"},
        Case{[](auto& o) { o.records = 0; }, "--records=0"},
        Case{[](auto& o) { o.update_percent = 101; }, "--update_percent=101: give 0 to 100"},
        Case{[](auto& o) { o.milliseconds = 0; }, "--milliseconds=0"},
        Case{[](auto& o) { o.theta = 1; }, "above 0 and below 1"}}) {
    MeasureOptions options;
    EXPECT_TRUE(Validate(options));
    one.change(options);
    const Status valid = Validate(options);
    ASSERT_FALSE(valid) << one.sentence;
    EXPECT_EQ(valid.error().code, Code::kInvalidArgument);
    EXPECT_THAT(valid.error().message, HasSubstr(one.sentence));
  }
  const auto plan = PlanMeasurements("speed", {});
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message, HasSubstr("--measure=speed: give techniques"));
}

TEST(MeasureTest, AllPartsAreMeasuredByName) {
  size_t parts = 0;
  for (const char* what : {"techniques", "large", "ranks", "one_by_one", "release", "threads",
                           "coroutines", "theta"}) {
    const auto plan = PlanMeasurements(what, {}).value();
    EXPECT_FALSE(plan.empty());
    for (const PlannedMeasurement& planned : plan) {
      EXPECT_EQ(planned.part, what);
      EXPECT_TRUE(Validate(planned.options));
    }
    parts += plan.size();
  }
  EXPECT_EQ(PlanMeasurements("all", {}).value().size(), parts);
}

}  // namespace
}  // namespace gossamer::simulator
