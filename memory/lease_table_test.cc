#include "memory/lease_table.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "common/testing/seed.h"

namespace gossamer {
namespace {

TEST(LeaseTable, SameLeaseUntilItEnds) {
  LeaseTable leases;
  const Lease first = leases.Register(77).value();
  EXPECT_EQ(first, (Lease{ComputeId{1}, 1}));
  EXPECT_EQ(leases.Register(77).value(), first);
  EXPECT_EQ(leases.Register(78).value().compute, ComputeId{2});
  EXPECT_EQ(leases.registered(), 2u);
  EXPECT_TRUE(leases.IsInForce(first));

  EXPECT_EQ(leases.End(77), first);
  EXPECT_EQ(leases.End(77), std::nullopt);
  EXPECT_FALSE(leases.IsInForce(first));
  EXPECT_EQ(leases.Find(77), std::nullopt);
  const Lease second = leases.Register(77).value();
  EXPECT_EQ(second.compute, first.compute);
  EXPECT_NE(second.incarnation, first.incarnation);
  EXPECT_FALSE(leases.IsInForce(first));
}

TEST(LeaseTable, ExpireUnlessRenewed) {
  using namespace std::chrono_literals;
  LeaseTable leases;
  const Lease first = leases.Register(77, 1ms).value();
  ASSERT_TRUE(leases.Register(78, 2ms));
  EXPECT_TRUE(leases.ExpireUpTo(0ms).empty());
  EXPECT_EQ(leases.Renew(77, 3ms).value(), first);
  EXPECT_EQ(leases.ExpireUpTo(2ms), std::vector<uint64_t>{78});
  EXPECT_TRUE(leases.ExpireUpTo(2ms).empty()) << "told once";
  EXPECT_EQ(leases.Register(77, 4ms).value(), first) << "a registration renews, too";
  EXPECT_TRUE(leases.ExpireUpTo(3ms).empty());
  EXPECT_EQ(leases.Renew(79, 4ms).error().code, Code::kFenced);
}

TEST(LeaseTable, TheOldestEpochIsThatOfTheLastToAcknowledge) {
  LeaseTable leases;
  const uint32_t first = leases.epoch();
  EXPECT_EQ(leases.OldestEpoch(), first);
  ASSERT_TRUE(leases.Register(77));
  EXPECT_EQ(leases.StartEpoch(), first + 1);
  const Lease young = leases.Register(78).value();
  Lease last;
  EXPECT_EQ(leases.OldestEpoch(&last), first);
  EXPECT_EQ(last, leases.Find(77));
  leases.Acknowledge(77, first + 9);
  EXPECT_EQ(leases.OldestEpoch(), first + 1) << "none acknowledges what has not begun";
  leases.StartEpoch();
  leases.Acknowledge(77, first + 2);
  leases.Acknowledge(77, first);
  EXPECT_EQ(leases.OldestEpoch(&last), first + 1);
  EXPECT_EQ(last, young);
  leases.End(78);
  EXPECT_EQ(leases.OldestEpoch(), first + 2);
  // It may come back with what it has cached.
  ASSERT_TRUE(leases.Register(78));
  EXPECT_EQ(leases.OldestEpoch(), first + 1);
}

TEST(LeaseTable, ALeaseIsInForceUntilItsHolderIsFencedAndOfNoUse) {
  using namespace std::chrono_literals;
  LeaseTable leases;
  const Lease first = leases.Register(77, 1ms).value();
  ASSERT_EQ(leases.ExpireUpTo(1ms), std::vector<uint64_t>{77});
  EXPECT_TRUE(leases.IsInForce(first));
  EXPECT_EQ(leases.Renew(77, 2ms).error().code, Code::kFenced);
  EXPECT_EQ(leases.Register(77, 2ms).error().code, Code::kFenced);
  EXPECT_TRUE(leases.IsInForce(first));
  EXPECT_EQ(leases.End(77), first);
  EXPECT_FALSE(leases.IsInForce(first));
  const Lease second = leases.Register(77, 3ms).value();
  EXPECT_EQ(second.compute, first.compute);
  EXPECT_NE(second.incarnation, first.incarnation);
  EXPECT_TRUE(leases.ExpireUpTo(2ms).empty());
}

TEST(LeaseTable, StrangersHaveNone) {
  LeaseTable leases;
  EXPECT_EQ(leases.Find(1), std::nullopt);
  EXPECT_EQ(leases.End(1), std::nullopt);
  EXPECT_FALSE(leases.IsInForce({ComputeId{0}, 0}));
  EXPECT_FALSE(leases.IsInForce({ComputeId{9}, 1}));
}

TEST(LeaseTable, IdsOfThoseGoneServeOthersWhenAllAreUsed) {
  LeaseTable leases;
  for (uint64_t uuid = 1; uuid <= LeaseTable::kMaxComputeServers; ++uuid)
    ASSERT_TRUE(leases.Register(uuid));
  EXPECT_EQ(leases.Register(1 << 20).error().code, Code::kExhausted);
  const Lease gone = *leases.End(5);
  ASSERT_TRUE(leases.End(6));
  ASSERT_TRUE(leases.Register(5));  // registers again: its id must not be reused
  const Lease other = leases.Register(1 << 20).value();
  EXPECT_EQ(other, (Lease{ComputeId{6}, 2}));
  EXPECT_EQ(leases.Find(5), (Lease{gone.compute, 2}));
  EXPECT_EQ(leases.Find(6), std::nullopt);
  EXPECT_EQ(leases.Register(6).error().code, Code::kExhausted);
}

TEST(LeaseTable, WhoComesAndGoesForeverTakesNoMoreMemory) {
  LeaseTable leases;
  for (int times = 1; times <= 1000; ++times) {
    ASSERT_EQ(leases.Register(77).value().compute, ComputeId{1});
    EXPECT_EQ(leases.gone(), 0u);
    ASSERT_TRUE(leases.End(77));
    ASSERT_EQ(leases.gone(), 1u) << "after " << times << " registrations";
  }
}

// Rule L2 when the 24 bits of an incarnation are used up.
TEST(LeaseTable, AnIdWhoseIncarnationsAreUsedUpIsNotGivenOutAgain) {
  LeaseTable leases({}, {}, 3);
  for (uint32_t incarnation = 1; incarnation <= 3; ++incarnation) {
    ASSERT_EQ(leases.Register(77).value(), (Lease{ComputeId{1}, incarnation}));
    ASSERT_EQ(leases.Register(77).value(), (Lease{ComputeId{1}, incarnation}));
    ASSERT_TRUE(leases.End(77));
  }
  EXPECT_EQ(leases.gone(), 0u);
  EXPECT_EQ(leases.Register(77).value(), (Lease{ComputeId{2}, 1}));
  EXPECT_EQ(leases.Register(78).value(), (Lease{ComputeId{3}, 1}));
  EXPECT_EQ(leases.registered(), 2u);
}

TEST(LeaseTable, NoLeaseIsGivenTwice) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  LeaseTable leases;
  std::set<std::pair<uint16_t, uint32_t>> given;
  size_t in_force = 0;
  for (int step = 0; step < 20000; ++step) {
    const uint64_t uuid = random() % 50;
    if (random() % 2 == 0) {
      const bool had = leases.Find(uuid).has_value();
      const Lease lease = leases.Register(uuid).value();
      const bool fresh =
          given.emplace(static_cast<uint16_t>(lease.compute), lease.incarnation).second;
      ASSERT_EQ(fresh, !had);
      if (fresh) ++in_force;
    } else if (leases.End(uuid)) {
      --in_force;
    }
    ASSERT_EQ(leases.registered(), in_force);
  }
}

// The process may be killed at any time. What it has written down is all that its successor knows.
TEST(LeaseTable, NoLeaseIsGivenTwiceOverRestarts) {
  std::mt19937_64 random(TestSeed());
  std::set<std::pair<uint16_t, uint32_t>> given;
  GivenNumbers written_down;
  for (int process = 0; process < 50; ++process) {
    const GivenNumbers before = written_down;
    LeaseTable leases(written_down, [&](const GivenNumbers& numbers) {
      ASSERT_NE(numbers, written_down);
      ASSERT_GE(numbers.incarnation, written_down.incarnation);
      ASSERT_GE(numbers.epoch, written_down.epoch);
      written_down = numbers;
    });
    ASSERT_GT(leases.epoch(), before.epoch) << "acknowledged under an earlier process";
    ASSERT_EQ(leases.epoch(), written_down.epoch);
    for (uint64_t epochs = random() % 3; epochs > 0; --epochs) {
      ASSERT_EQ(leases.StartEpoch(), written_down.epoch);
    }
    for (uint64_t step = random() % 40; step > 0; --step) {
      const uint64_t uuid = random() % 10;
      leases.End(uuid);
      const Lease lease = leases.Register(uuid).value();
      ASSERT_TRUE(given.emplace(static_cast<uint16_t>(lease.compute), lease.incarnation).second);
      ASSERT_LE(lease.incarnation, written_down.incarnation) << "given before it was written down";
      ASSERT_TRUE(leases.IsInForce(lease));
    }
  }
}

TEST(LeaseTable, LeasesOfAnEarlierProcessAreNotInForce) {
  LeaseTable leases({5, 1});
  EXPECT_FALSE(leases.IsInForce({ComputeId{1}, 5}));
  EXPECT_EQ(leases.Register(77).value(), (Lease{ComputeId{1}, 6}));
  EXPECT_FALSE(leases.IsInForce({ComputeId{1}, 5}));
  EXPECT_EQ(leases.Register(78).value(), (Lease{ComputeId{2}, 6}));
}

TEST(LeaseTable, IncarnationsAreUsedUpOverRestarts) {
  LeaseTable last({2, 1}, {}, 3);
  EXPECT_EQ(last.Register(77).value(), (Lease{ComputeId{1}, 3}));
  ASSERT_TRUE(last.End(77));
  EXPECT_EQ(last.Register(77).value(), (Lease{ComputeId{2}, 3}));
  LeaseTable none({3, 1}, {}, 3);
  EXPECT_EQ(none.Register(77).error().code, Code::kExhausted);
}

}  // namespace
}  // namespace gossamer
