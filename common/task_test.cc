#include "common/task.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <coroutine>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/testing/count_allocations.h"

namespace gossamer {
namespace {

// Tasks wait here until the test resumes them.
class Gate {
 public:
  auto Wait() {
    struct Awaiter {
      Gate& gate;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> waiter) { gate.waiter_ = waiter; }
      void await_resume() const noexcept {}
    };
    return Awaiter{*this};
  }
  bool Open() {
    const std::coroutine_handle<> waiter = std::exchange(waiter_, nullptr);
    if (waiter) waiter.resume();
    return static_cast<bool>(waiter);
  }

 private:
  std::coroutine_handle<> waiter_;
};

internal::Detached Start(Task<void> task, bool& done) {
  co_await task;
  done = true;
}

Task<int> Value(int value) { co_return value; }

Task<int> SumOf(int count) {
  int sum = 0;
  for (int i = 0; i < count; ++i) sum += co_await Value(1);
  co_return sum;
}

Task<void> StoreSum(int count, int& into) { into = co_await SumOf(count); }

TEST(Task, IsLazy) {
  bool started = false;
  const auto body = [&]() -> Task<void> {
    started = true;
    co_return;
  };
  {
    const Task<void> never_awaited = body();
    EXPECT_FALSE(started);
  }
  bool done = false;
  Start(body(), done);
  EXPECT_TRUE(started);
  EXPECT_TRUE(done);
}

TEST(Task, AMillionSynchronousAwaitsDoNotDeepenTheStack) {
  int sum = 0;
  bool done = false;
  Start(StoreSum(1'000'000, sum), done);
  EXPECT_TRUE(done);
  EXPECT_EQ(sum, 1'000'000);
}

TEST(Task, AMillionSuspendedAwaitsDoNotDeepenTheStack) {
  Gate gate;
  const auto wait = [&]() -> Task<int> {
    co_await gate.Wait();
    co_return 1;
  };
  int sum = 0;
  const auto loop = [&]() -> Task<void> {
    for (int i = 0; i < 1'000'000; ++i) sum += co_await wait();
  };
  bool done = false;
  Start(loop(), done);
  while (gate.Open()) {
  }
  EXPECT_TRUE(done);
  EXPECT_EQ(sum, 1'000'000);
}

Task<int> Nested(int depth, Gate* gate) {
  if (depth == 0) {
    if (gate != nullptr) co_await gate->Wait();
    co_return 0;
  }
  co_return 1 + co_await Nested(depth - 1, gate);
}

TEST(Task, NestingReturnsThroughEveryLevel) {
  int depth = 0;
  const auto run = [&](Gate* gate) -> Task<void> { depth = co_await Nested(1000, gate); };
  bool done = false;
  Start(run(nullptr), done);
  EXPECT_TRUE(done);
  EXPECT_EQ(depth, 1000);

  Gate gate;
  depth = 0;
  done = false;
  Start(run(&gate), done);
  EXPECT_FALSE(done);
  EXPECT_TRUE(gate.Open());
  EXPECT_TRUE(done);
  EXPECT_EQ(depth, 1000);
}

TEST(Task, ReturnsMoveOnlyValues) {
  const auto make = []() -> Task<std::unique_ptr<int>> { co_return std::make_unique<int>(7); };
  std::unique_ptr<int> value;
  const auto run = [&]() -> Task<void> { value = co_await make(); };
  bool done = false;
  Start(run(), done);
  ASSERT_NE(value, nullptr);
  EXPECT_EQ(*value, 7);
}

TEST(Task, MovingATaskKeepsIt) {
  int sum = 0;
  Task<void> first = StoreSum(3, sum);
  Task<void> second;
  second = std::move(first);
  bool done = false;
  Start(std::move(second), done);
  EXPECT_EQ(sum, 3);
}

TEST(Task, DestroysItsLocals) {
  const auto witness = std::make_shared<int>(0);
  const auto hold = [](std::shared_ptr<int> held) -> Task<int> { co_return *held; };
  int value = -1;
  const auto run = [&]() -> Task<void> { value = co_await hold(witness); };
  bool done = false;
  Start(run(), done);
  EXPECT_TRUE(done);
  EXPECT_EQ(value, 0);
  EXPECT_EQ(witness.use_count(), 1);
}

TEST(Task, TheSteadyStateAllocatesNothing) {
  Gate gate;
  const auto wait = [&](int value) -> Task<int> {
    co_await gate.Wait();
    co_return value + co_await Value(1);
  };
  const auto run = [&](int& sum) -> Task<void> { sum += co_await wait(1); };
  int sum = 0;
  bool done = false;
  const auto round = [&] {
    Start(run(sum), done);
    gate.Open();
  };
  for (int i = 0; i < 10; ++i) round();
  const uint64_t before = allocations;
  for (int i = 0; i < 10'000; ++i) round();
  EXPECT_EQ(allocations - before, 0U);
  EXPECT_EQ(sum, 2 * 10'010);
}

TEST(FramePool, LargeFramesBypassThePool) {
  void* large = FramePool::Allocate(1 << 20);
  ASSERT_NE(large, nullptr);
  FramePool::Free(large, 1 << 20);
  void* small = FramePool::Allocate(100);
  FramePool::Free(small, 100);
  EXPECT_EQ(FramePool::Allocate(128), small) << "frames of one class are the same";
  FramePool::Free(small, 128);
}

// Runs `work` when the thread's thread-local objects are destroyed.
struct AtExit {
  ~AtExit() {
    if (work) work();
  }
  std::function<void()> work;
};

// The heap operations of one `Allocate` and `Free` of a frame.
struct FrameCost {
  uint64_t allocations = 0;
  uint64_t releases = 0;
  friend bool operator==(const FrameCost&, const FrameCost&) = default;
};

FrameCost CostOfAFrame() {
  const FrameCost before{allocations, releases};
  FramePool::Free(FramePool::Allocate(100), 100);
  return {allocations - before.allocations, releases - before.releases};
}

// As in the destructor of a store held by a thread-local or static variable.
TEST(FramePool, FramesOfAnEndingThreadAreNoneOfTheFreedPool) {
  FrameCost first;
  FrameCost pooled;
  FrameCost at_exit;
  std::thread([&] {
    static thread_local AtExit late;  // made before the pool's lists, so destroyed after them
    late.work = [&] { at_exit = CostOfAFrame(); };
    first = CostOfAFrame();
    pooled = CostOfAFrame();
  }).join();
  EXPECT_EQ(first, (FrameCost{1, 0}));
  EXPECT_EQ(pooled, (FrameCost{0, 0}));
  EXPECT_EQ(at_exit, (FrameCost{1, 1}));
}

TEST(FramePool, AThreadThatEndsFreesItsFrames) {
  constexpr uint64_t kFrames = 20;
  uint64_t before = 0;
  uint64_t after = 0;
  std::thread([&] {
    static thread_local AtExit late;
    late.work = [&] { after = releases; };
    std::array<void*, kFrames> frames;
    for (void*& frame : frames) frame = FramePool::Allocate(200);
    for (void* frame : frames) FramePool::Free(frame, 200);
    static thread_local AtExit early;  // destroyed before the pool's lists
    early.work = [&] { before = releases; };
  }).join();
  EXPECT_EQ(after - before, kFrames);
}

}  // namespace
}  // namespace gossamer
