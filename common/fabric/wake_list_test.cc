#include "common/fabric/wake_list.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "common/random.h"
#include "common/testing/seed.h"

namespace gossamer {
namespace {

TEST(WakeListTest, GivesThemInTheOrderInWhichTheyWereWoken) {
  WakeList list;
  std::array<WakeList::Sleeper, 3> sleepers;
  EXPECT_TRUE(list.empty());
  for (WakeList::Sleeper& sleeper : sleepers) list.Wake(sleeper);
  EXPECT_FALSE(list.empty());
  list.Sleep({});  // returns at once
  WakeList::Sleeper* taken = list.TakeAll();
  for (WakeList::Sleeper& sleeper : sleepers) {
    EXPECT_EQ(taken, &sleeper);
    taken = taken->next;
  }
  EXPECT_EQ(taken, nullptr);
  EXPECT_TRUE(list.empty());
}

TEST(WakeListTest, SleepsUntilThenWhereNobodyWakes) {
  WakeList list;
  list.Sleep(WakeList::Clock::now() + std::chrono::milliseconds(1));
  EXPECT_TRUE(list.empty());
  WakeList::Sleeper sleeper;
  list.Wake(sleeper);
  EXPECT_EQ(list.TakeAll(), &sleeper);
}

// A wake is never lost, and does not touch the list after its coroutine was taken: the list is
// destroyed at once. Also for ThreadSanitizer and AddressSanitizer.
TEST(WakeListTest, EndsAsSoonAsItsCoroutineWasTaken) {
  constexpr size_t kRounds = 2000;
  std::vector<WakeList::Sleeper> sleepers(kRounds);
  std::atomic<WakeList*> waiting = nullptr;
  const auto spin = [](uint64_t rounds) {
    for (std::atomic<uint64_t> i = 0; i < rounds; ++i) {
    }
  };
  std::thread waker([&, random = Random(TestSeed())]() mutable {
    for (WakeList::Sleeper& sleeper : sleepers) {
      WakeList* list = nullptr;
      while ((list = waiting.exchange(nullptr)) == nullptr) std::this_thread::yield();
      spin(random.Below(10'000));
      list->Wake(sleeper);
    }
  });
  Random random(TestSeed() + 1);
  for (WakeList::Sleeper& sleeper : sleepers) {
    WakeList list;
    waiting = &list;
    spin(random.Below(10'000));
    const bool is_bounded = random.Below(2) == 0;
    while (list.empty()) {
      std::optional<WakeList::Clock::time_point> until;
      if (is_bounded) {
        until = WakeList::Clock::now() + std::chrono::microseconds(random.Below(20));
      }
      list.Sleep(until);
    }
    ASSERT_EQ(list.TakeAll(), &sleeper);
  }
  waker.join();
}

}  // namespace
}  // namespace gossamer
