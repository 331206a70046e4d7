// Runs: they repeat exactly, find no fault in the store, and do what they are for.
#include "compute/verify/sim/run.h"

#include <gtest/gtest.h>

#include <sstream>

#include "common/testing/seed.h"
#include "compute/verify/sim/profiles.h"

namespace gossamer::simulator {
namespace {

TEST(RunTest, TheSameSeedGivesTheSameRun) {
  const uint64_t seed = TestSeed();
  for (uint64_t i = 0; i < 10; ++i) {
    const Plan plan = DrawPlan({}, seed + i);
    const RunResult first = RunPlan(plan, nullptr);
    const RunResult second = RunPlan(plan, nullptr);
    EXPECT_EQ(first.hash, second.hash) << "seed " << seed + i;
    EXPECT_EQ(first.counts.network.events, second.counts.network.events);
    EXPECT_EQ(first.problems, second.problems);
  }
}

TEST(RunTest, AnotherSeedGivesAnotherRun) {
  const uint64_t seed = TestSeed();
  EXPECT_NE(RunPlan(DrawPlan({}, seed), nullptr).hash,
            RunPlan(DrawPlan({}, seed + 1), nullptr).hash);
}

TEST(RunTest, ATraceChangesNothing) {
  const Plan plan = DrawPlan({}, TestSeed());
  std::ostringstream trace;
  EXPECT_EQ(RunPlan(plan, &trace).hash, RunPlan(plan, nullptr).hash);
  EXPECT_NE(trace.str().find("begin"), std::string::npos);
}

TEST(RunTest, FindsNothingWrongWithTheStore) {
  const uint64_t seed = TestSeed();
  for (const Profile& profile : Profiles()) {
    RunOptions options;
    options.profile = profile.name;
    for (uint64_t i = 0; i < 3; ++i) {
      const RunResult result = RunPlan(DrawPlan(options, seed + i), nullptr);
      EXPECT_TRUE(result.problems.empty())
          << profile.name << " seed " << seed + i << ": " << result.problems[0];
    }
  }
}

TEST(RunTest, RepairsReplaceWhatWasLost) {
  const uint64_t seed = TestSeed();
  RunOptions options;
  options.profile = "repaired";
  RunCounts sum;
  for (uint64_t i = 0; i < 20; ++i) Add(sum, RunPlan(DrawPlan(options, seed + i), nullptr).counts);
  EXPECT_GT(sum.dead_servers, 5u);
  EXPECT_GT(sum.replaced_nodes, 20u);
}

// A run in which too little happens can find nothing.
TEST(RunTest, MuchHappens) {
  const uint64_t seed = TestSeed();
  RunCounts sum;
  for (uint64_t i = 0; i < 160; ++i) Add(sum, RunPlan(DrawPlan({}, seed + i), nullptr).counts);
  EXPECT_GT(sum.operations, 15'000u);
  EXPECT_GT(sum.counters.of(OperationClass::kInsertSplit).operations, 40u);
  EXPECT_GT(sum.counters.rereads, 40u);
  EXPECT_GT(sum.counters.cache.stale, 40u);
  EXPECT_GT(sum.counters.locks.remote_retries, 400u);
  EXPECT_GT(sum.network.torn_reads, 400u);
  EXPECT_GT(sum.network.torn_writes, 200u);
  EXPECT_GT(sum.network.overtaken, 4'000u);
  EXPECT_GT(sum.network.long_delays, 4'000u);
  EXPECT_GT(sum.network.written_back, 4'000u);
  EXPECT_GT(sum.network.killed_clients, 10u);
  EXPECT_GT(sum.network.cuts, 10u);
  EXPECT_GT(sum.network.broken_queue_pairs, 100u);
  EXPECT_GT(sum.network.late_packets, 40u);
  EXPECT_GT(sum.network.partitions, 40u);
  EXPECT_GT(sum.network.failed_connects, 10u);
  EXPECT_GT(sum.network.lost_calls, 20u);
  EXPECT_GT(sum.network.fenced_clients, 20u);
  EXPECT_GT(sum.joined_servers, 2u);
  EXPECT_GT(sum.returned_servers, 5u);
  EXPECT_GT(sum.modified, 400u);
  EXPECT_GT(sum.erased, 200u);
  EXPECT_GT(sum.rests, 100u);
  EXPECT_GT(sum.unknown, 40u);
  EXPECT_GT(sum.levels, 60u);
  EXPECT_EQ(sum.undecided_keys, 0u);
}

}  // namespace
}  // namespace gossamer::simulator
