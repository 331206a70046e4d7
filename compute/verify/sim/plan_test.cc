// Plans: a seed always draws the same plan, and all drawn plans are valid.
#include "compute/verify/sim/plan.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <set>

#include "common/testing/seed.h"
#include "compute/verify/sim/profiles.h"
#include "compute/verify/sim/workload.h"
#include "proto/leaf_geometry.h"

namespace gossamer::simulator {
namespace {

TEST(FaultsTest, ReadsWhatItWrites) {
  for (const char* text : {"none", "all", "tear", "tear,delay", "break,kill,exhaust"}) {
    const Result<FaultSet> faults = ParseFaults(text);
    ASSERT_TRUE(faults) << text;
    EXPECT_EQ(ToString(faults.value()), text);
  }
  EXPECT_EQ(ParseFaults("delay,tear").value(), ParseFaults("tear,delay").value());
  EXPECT_EQ(ParseFaults("tear,delay,reorder,write_back,break,partition,cut,kill,pause,exhaust,"
                        "reopen,restart,stall,calls,join,record,return")
                .value(),
            FaultSet::All());
}

TEST(FaultsTest, NamesWhatIsNoFault) {
  for (const char* text : {"", "tears", "tear,", ",tear", "tear delay", "none,tear"}) {
    const Result<FaultSet> faults = ParseFaults(text);
    ASSERT_FALSE(faults) << text;
    EXPECT_EQ(faults.error().code, Code::kInvalidArgument);
    EXPECT_NE(faults.error().message.find("write_back"), std::string::npos);
  }
}

TEST(PlanTest, LockTablesAreMostlyOnChipAndElseInDram) {
  const uint64_t seed = TestSeed();
  constexpr uint64_t kPlans = 400;
  uint64_t on_chip = 0;
  for (uint64_t i = 0; i < kPlans; ++i) {
    if (DrawPlan({}, seed + i).on_chip_locks) ++on_chip;
  }
  EXPECT_GT(on_chip, kPlans / 2);
  EXPECT_LT(on_chip, kPlans);
}

TEST(PlanTest, ASeedDrawsTheSamePlan) {
  const uint64_t seed = TestSeed();
  std::set<std::string> plans;
  for (uint64_t i = 0; i < 100; ++i) {
    const std::string plan = ToString(DrawPlan({}, seed + i));
    EXPECT_EQ(ToString(DrawPlan({}, seed + i)), plan);
    plans.insert(plan);
  }
  EXPECT_GT(plans.size(), 95u);
}

TEST(PlanTest, EveryPlanMakesSense) {
  const uint64_t seed = TestSeed();
  std::vector<std::string> names = {"any"};
  for (const Profile& profile : Profiles()) names.emplace_back(profile.name);
  for (const std::string& name : names) {
    for (uint64_t i = 0; i < 200; ++i) {
      RunOptions options;
      options.profile = name;
      options.keys = 1 + static_cast<uint32_t>(i);
      ASSERT_TRUE(Validate(options));
      const Plan plan = DrawPlan(options, seed + i);
      SCOPED_TRACE(fmt::format("seed {} {}", seed + i, ToString(plan)));
      EXPECT_TRUE(IsStorable(plan.parameters));
      EXPECT_EQ(plan.memory_bytes % 4096, 0u);
      EXPECT_GE(plan.memory_bytes, kHeapOffset + plan.chunk_bytes);
      EXPECT_GE(plan.work.hot_keys, 1u);
      EXPECT_LE(plan.work.hot_keys, options.keys);
      EXPECT_LT(plan.work.keys(), history::kMaxKeys);
      EXPECT_GE(plan.work.longest_value, 17u);
      // A run about closing sessions may have several sessions of one client instead of clients.
      EXPECT_GE(plan.clients.size() + plan.clients[0].sessions, 3u);
      EXPECT_LE(plan.clients.size(), options.clients);
      Workload workload(plan);
      Random random(seed, i);
      for (int draw = 0; draw < 200; ++draw) {
        const PlannedOperation operation = workload.Draw(random, 1);
        EXPECT_LT(operation.key, plan.work.keys());
        EXPECT_LE(operation.last, plan.work.keys());
      }
    }
  }
}

TEST(PlanTest, WithoutFaultsTheNetworkIsIdeal) {
  RunOptions options;
  options.faults = FaultSet();
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Plan plan = DrawPlan(options, seed);
    EXPECT_EQ(SimFaultsText(plan.network.faults), "none");
    EXPECT_EQ(plan.kills + plan.pauses, 0u);
  }
}

// Seeds without partitions keep the meaning recorded before partitions existed.
TEST(PlanTest, PartitionsAreInOneRunOfFourAndChangeNoOther) {
  constexpr uint64_t kPlans = 400;
  const uint64_t seed = TestSeed();
  RunOptions without;
  without.faults = ParseFaults(
                       "tear,delay,reorder,write_back,break,cut,kill,pause,exhaust,reopen,"
                       "restart,stall,calls,join,record,return")
                       .value();
  RunOptions about;
  about.profile = "out_of_reach";
  uint64_t partitioned = 0;
  uint64_t about_it = 0;
  for (uint64_t i = 0; i < kPlans; ++i) {
    const Plan plan = DrawPlan({}, seed + i);
    Plan other = DrawPlan(without, seed + i);
    EXPECT_FALSE(other.network.faults.partition);
    if (plan.network.faults.partition) {
      ++partitioned;
    } else {
      other.faults = plan.faults;
      EXPECT_EQ(ToString(plan), ToString(other));
    }
    about_it += DrawPlan(about, seed + i).network.faults.partition ? 1 : 0;
  }
  EXPECT_GT(partitioned, kPlans / 8);
  EXPECT_LT(partitioned, kPlans / 2);
  EXPECT_GT(about_it, kPlans * 3 / 4);
}

TEST(PlanTest, RefusesWhatMakesNoRun) {
  const auto refused = [](auto change) {
    RunOptions options;
    change(options);
    const Status status = Validate(options);
    return !status && status.error().code == Code::kInvalidArgument;
  };
  EXPECT_FALSE(refused([](RunOptions&) {}));
  EXPECT_TRUE(refused([](RunOptions& options) { options.clients = 0; }));
  EXPECT_TRUE(refused([](RunOptions& options) { options.servers = 0; }));
  EXPECT_TRUE(refused([](RunOptions& options) { options.keys = 0; }));
  EXPECT_TRUE(refused([](RunOptions& options) { options.operations = 0; }));
  EXPECT_TRUE(refused([](RunOptions& options) { options.clients = 100'000; }));
  EXPECT_TRUE(refused([](RunOptions& options) { options.profile = "mix"; }));
}

}  // namespace
}  // namespace gossamer::simulator
