#include "compute/bench/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "compute/testing/fake_store.h"
#include "proto/leaf_geometry.h"

namespace gossamer::bench {
namespace {

TEST(PlanTest, DefaultsAreWorkloadCOnARunningStore) {
  const Plan plan = MakePlan({}).value();
  EXPECT_EQ(plan.runner.workload.name, 'c');
  EXPECT_EQ(plan.runner.workload.distribution, Distribution::kZipfian);
  EXPECT_TRUE(plan.load && plan.run && plan.warm_up);
  EXPECT_FALSE(plan.local);
  EXPECT_EQ(plan.open.store, "default");
  EXPECT_EQ(plan.open.cache_bytes, uint64_t{256} << 20);
}

TEST(PlanTest, PhasesAndDistributionAreTakenFromTheFlags) {
  FlagValues flags;
  flags.phase = "load";
  flags.distribution = "uniform";
  const Plan load = MakePlan(flags).value();
  EXPECT_TRUE(load.load);
  EXPECT_FALSE(load.run || load.warm_up);
  EXPECT_EQ(load.runner.workload.distribution, Distribution::kUniform);
  flags.phase = "run";
  flags.warm_up = false;
  const Plan run = MakePlan(flags).value();
  EXPECT_TRUE(run.run);
  EXPECT_FALSE(run.load || run.warm_up);
}

TEST(PlanTest, OrdersOfLoadingHaveNames) {
  FlagValues flags;
  EXPECT_EQ(MakePlan(flags).value().runner.load_order, LoadOrder::kRandom);
  flags.load_order = "sorted";
  EXPECT_EQ(MakePlan(flags).value().runner.load_order, LoadOrder::kSorted);
  flags.load_order = "runs";
  flags.batch = 64;
  EXPECT_EQ(MakePlan(flags).value().runner.load_order, LoadOrder::kRuns);
  flags.load_order = "fast";
  EXPECT_THAT(MakePlan(flags).error().message,
              testing::HasSubstr("--load_order=fast is not one of random, runs, sorted"));
}

TEST(PlanTest, ALocalStoreFitsItsRecords) {
  for (const uint64_t key_bytes : {4u, 8u, 32u}) {
    for (const uint64_t value_bytes : {0u, 8u, 16u, 64u, 65u, 1u << 20}) {
      FlagValues flags;
      flags.local = "auto";
      flags.records = 1'000;
      flags.key_bytes = key_bytes;
      flags.value_bytes = value_bytes;
      const LocalOptions local = *MakePlan(flags).value().local;
      EXPECT_TRUE(IsStorable(local.parameters)) << key_bytes << " + " << value_bytes;
      EXPECT_EQ(local.parameters.max_key_bytes, key_bytes);
      EXPECT_GE(local.memory_bytes, 1'000 * (key_bytes + value_bytes));
    }
  }
  // Ten million small records: enough for the 29 B per key of random inserts, but not many times
  // that.
  EXPECT_GT(MemoryFor(10'000'000, 8, 8), 29u * 10'000'000 * 5 / 4);
  EXPECT_LT(MemoryFor(10'000'000, 8, 8), 29u * 10'000'000 * 3);
}

TEST(PlanTest, TheSizeOfALocalStoreMayBeGiven) {
  FlagValues flags;
  flags.local = "4GiB";
  EXPECT_EQ(MakePlan(flags).value().local->memory_bytes, uint64_t{4} << 30);
}

TEST(PlanTest, WrongFlagsAreASentence) {
  struct Case {
    std::function<void(FlagValues&)> change;
    const char* sentence;
  };
  const Case cases[] = {
      {[](FlagValues& f) { f.workload = "g"; }, "--workload=g is not one of a, b, c, d, e, f"},
      {[](FlagValues& f) { f.workload = ""; }, "--workload= is not one of"},
      {[](FlagValues& f) { f.phase = "walk"; }, "--phase=walk is not one of load, run, both"},
      {[](FlagValues& f) { f.distribution = "normal"; }, "--distribution=normal is not one of"},
      {[](FlagValues& f) { f.records = 0; }, "--records=0 is not from 1 to"},
      {[](FlagValues& f) { f.threads = 0; }, "--threads=0 is not from 1 to 1,024"},
      {[](FlagValues& f) { f.coroutines = 0; }, "--coroutines=0 is not from"},
      {[](FlagValues& f) { f.batch = 0; }, "--batch=0 is not from"},
      {[](FlagValues& f) { f.key_bytes = 3; }, "--key_bytes=3 is not from 4 to 32"},
      {[](FlagValues& f) { f.key_bytes = 33; }, "--key_bytes=33 is not from 4 to 32"},
      {[](FlagValues& f) { f.value_bytes = (1 << 20) + 1; },
       "--value_bytes=1048577 is not from 0 to 1,048,576"},
      {[](FlagValues& f) { f.theta = 1; }, "--theta=1.000000 is not between 0 and 1"},
      {[](FlagValues& f) { f.theta = 0; }, "--theta=0.000000 is not between 0 and 1"},
      {[](FlagValues& f) { f.key_bytes = 9; }, "--key_bytes=9 has keys for 65,536 records only"},
      {[](FlagValues& f) {
         f.workload = "d";
         f.operations = uint64_t{1} << 50;
       },
       "is too many for a workload that inserts: give at most 8,589,934,592"},
      {[](FlagValues& f) { f.load_order = "runs"; },
       "--load_order=runs with --batch=1 is random order"},
      {[](FlagValues& f) { f.local = "much"; }, "--local: "},
      {[](FlagValues& f) { f.cache_bytes = "x"; }, "--cache_bytes: "},
      {[](FlagValues& f) { f.traversal_batch = "0"; }, "--traversal_batch=0: give a number from 1"},
      {[](FlagValues& f) { f.traversal_batch = "65"; }, "--traversal_batch=65: "},
      {[](FlagValues& f) { f.traversal_batch = "8x"; }, "--traversal_batch=8x: "},
      {[](FlagValues& f) { f.prefetch = "all"; }, "--prefetch=all: give one of header, "},
      {[](FlagValues& f) {
         f.local = "auto";
         f.phase = "run";
       },
       "--local opens a store of its own, which is empty"},
  };
  for (const Case& wrong : cases) {
    FlagValues flags;
    wrong.change(flags);
    const Result<Plan> plan = MakePlan(flags);
    ASSERT_FALSE(plan) << wrong.sentence;
    EXPECT_EQ(plan.error().code, Code::kInvalidArgument);
    EXPECT_THAT(plan.error().message, testing::HasSubstr(wrong.sentence));
  }
}

TEST(PlanTest, AStoreWithKeysIsWrittenToOnlyWhenItIsNamed) {
  struct Case {
    const char* phase;
    const char* workload;
    bool writes;
  };
  for (const Case& one : {Case{"load", "c", true}, Case{"both", "c", true}, Case{"run", "a", true},
                          Case{"run", "d", true}, Case{"run", "e", true}, Case{"run", "f", true},
                          Case{"run", "c", false}}) {
    SCOPED_TRACE(std::string(one.phase) + " " + one.workload);
    FakeStore store;
    FlagValues flags;
    flags.phase = one.phase;
    flags.workload = one.workload;
    EXPECT_TRUE(CheckMayWrite(store, MakePlan(flags).value())) << "the store is empty";
    store.state().map["a person's"] = "key";
    const Status unnamed = CheckMayWrite(store, MakePlan(flags).value());
    EXPECT_EQ(static_cast<bool>(unnamed), !one.writes);
    if (!unnamed) {
      EXPECT_EQ(unnamed.error().code, Code::kInvalidArgument);
      EXPECT_THAT(unnamed.error().message, ::testing::HasSubstr("say so by --store=default"));
    }
    flags.store_is_named = true;
    EXPECT_TRUE(CheckMayWrite(store, MakePlan(flags).value()));
  }
}

TEST(PlanTest, AStoreThatCannotBeReadIsNotTakenForAnEmptyOne) {
  FakeStore store;
  store.state().fail_with = MakeError(Code::kNodeUnreachable, "memory server 0 is gone");
  EXPECT_EQ(CheckMayWrite(store, MakePlan({}).value()).error().code, Code::kNodeUnreachable);
}

}  // namespace
}  // namespace gossamer::bench
