#include "compute/gateway/auto_sweeper.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "compute/testing/fake_store.h"

namespace gossamer::gateway {
namespace {

using std::chrono::milliseconds;

// Within a minute.
bool Comes(const std::function<bool()>& condition) {
  for (int again = 6000; again > 0 && !condition(); --again) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  return condition();
}

std::unique_ptr<AutoSweeper> StartOver(Store& store, milliseconds after = milliseconds(5)) {
  auto sweeper = AutoSweeper::Start(store, after);
  EXPECT_TRUE(sweeper);
  return std::move(sweeper.value());
}

TEST(AutoSweeperTest, SweepsOnceForEachNeed) {
  FakeStore store;
  const auto sweeper = StartOver(store);
  for (uint64_t times = 1; times <= 2; ++times) {
    store.state().needs_sweep = true;
    ASSERT_TRUE(Comes([&] { return sweeper->figures().sweeps == times; }));
    EXPECT_FALSE(store.state().needs_sweep);
  }
  EXPECT_EQ(sweeper->figures().swept_bytes, 2 * 4096u);
  EXPECT_EQ(sweeper->State()["done"], 2);
  EXPECT_EQ(sweeper->State()["is_sweeping"], false);
}

TEST(AutoSweeperTest, LeavesTheSweepToAnother) {
  FakeStore store;
  store.state().needs_sweep = true;
  store.state().others_sweep = true;
  const auto sweeper = StartOver(store, milliseconds(1));
  // It asks, and is told that another one sweeps.
  ASSERT_TRUE(Comes([&] { return store.state().refused_sweeps >= 3; }));
  EXPECT_EQ(sweeper->figures().sweeps, 0u);
  EXPECT_EQ(sweeper->figures().failures, 0u);
  store.state().others_sweep = false;
  EXPECT_TRUE(Comes([&] { return sweeper->figures().sweeps == 1; }));
}

TEST(AutoSweeperTest, TriesAgainAfterAFailure) {
  FakeStore store;
  store.state().fail_with = MakeError(Code::kNodeUnreachable, "memory server 1 does not answer");
  store.state().needs_sweep = true;
  const auto sweeper = StartOver(store, milliseconds(1));
  EXPECT_TRUE(Comes([&] { return sweeper->figures().failures >= 2; }));
  EXPECT_EQ(sweeper->figures().sweeps, 0u);
}

TEST(AutoSweeperTest, EndsASweepThatGoesOn) {
  FakeStore store;
  store.state().endless_sweeps = true;
  store.state().needs_sweep = true;
  auto sweeper = StartOver(store, milliseconds(1));
  ASSERT_TRUE(Comes([&] { return sweeper->figures().is_sweeping; }));
  sweeper.reset();
  EXPECT_TRUE(store.state().needs_sweep);
}

}  // namespace
}  // namespace gossamer::gateway
