#include "compute/session/running_operations.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

namespace gossamer {
namespace {

using Scope = RunningOperations::Scope;

TEST(RunningOperations, OnlyEarlierOnesAreWaitedFor) {
  RunningOperations all;
  EXPECT_TRUE(all.EarlierHaveEnded());
  RunningOperations::OfSession ant(all);
  RunningOperations::OfSession bee(all);
  std::optional<Scope> first(std::in_place, ant);
  std::optional<Scope> second(std::in_place, bee);
  EXPECT_TRUE(all.EarlierHaveEnded());
  all.StartPeriod();
  EXPECT_FALSE(all.EarlierHaveEnded());
  std::optional<Scope> later(std::in_place, ant);
  first.reset();
  EXPECT_FALSE(all.EarlierHaveEnded());
  second.reset();
  EXPECT_TRUE(all.EarlierHaveEnded());
  all.StartPeriod();
  EXPECT_FALSE(all.EarlierHaveEnded());
  later.reset();
  EXPECT_TRUE(all.EarlierHaveEnded());
}

TEST(RunningOperations, AClosedSessionHasNone) {
  RunningOperations all;
  {
    RunningOperations::OfSession session(all);
    {
      const Scope scope(session);
    }
    all.StartPeriod();
  }
  EXPECT_TRUE(all.EarlierHaveEnded());
}

// What is retired before two periods have passed is not used after them.
TEST(RunningOperations, NoOperationSeesWhatIsGone) {
  RunningOperations all;
  constexpr int kObjects = 2000;
  std::vector<std::atomic<bool>> is_gone(kObjects + 1);
  std::atomic<int> present = 0;
  std::atomic<bool> stops = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      RunningOperations::OfSession session(all);
      while (!stops) {
        const Scope scope(session);
        const int used = present.load(std::memory_order_relaxed);
        for (int j = 0; j < 10; ++j) {
          ASSERT_FALSE(is_gone[static_cast<size_t>(used)].load(std::memory_order_relaxed));
        }
      }
    });
  }
  for (int i = 0; i < kObjects; ++i) {
    while (!all.EarlierHaveEnded()) std::this_thread::yield();
    present.store(i + 1, std::memory_order_relaxed);
    all.StartPeriod();
    while (!all.EarlierHaveEnded()) std::this_thread::yield();
    is_gone[static_cast<size_t>(i)].store(true, std::memory_order_relaxed);
  }
  stops = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace gossamer
