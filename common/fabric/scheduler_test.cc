#include "common/fabric/scheduler.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "common/fabric/endpoint_decorator.h"
#include "common/fabric/event.h"
#include "common/fabric/open/open_port.h"
#include "common/random_id.h"

namespace gossamer {
namespace {

using std::chrono::nanoseconds;

class EmptyHandler final : public ControlHandler {
 public:
  uint32_t Handle(uint64_t, std::span<const std::byte>,
                  std::span<std::byte, kMaxControlBytes>) override {
    return 0;
  }
  void ClientGone(uint64_t) override {}
};

class SchedulerTest : public testing::Test {
 protected:
  void SetUp() override {
    MemoryPortOptions memory;
    memory.region_bytes = 4096;
    memory.lock_table_bytes = 64;
    memory.in_process_only = true;
    memory_ = OpenMemoryPort(FabricKind::kShm, memory).value();
    ASSERT_TRUE(memory_->Start(handler_, RandomId()));
    ComputePortOptions compute;
    compute.client_uuid = 1;
    compute_ = OpenComputePort(FabricKind::kShm, compute).value();
    ASSERT_TRUE(compute_->Connect(ServerId{0}, memory_->address()));
    endpoint_ = compute_->NewEndpoint().value();
  }

  Endpoint& endpoint() { return *endpoint_; }

  // Adds `addend` to the counter `times` times, one round trip each. Returns the last old value.
  Task<uint64_t> Count(uint64_t addend, int times) {
    const BufferLease buffer = endpoint_->buffers().Allocate(8).value();
    InlineBatch<1> batch;
    for (int i = 0; i < times; ++i) {
      batch.Reset(ServerId{0});
      batch.Add(Verb::FetchAdd(Space::kRegion, 0, addend, buffer.address()));
      co_await endpoint_->Execute(batch);
    }
    co_return batch.verbs()[0].old_value();
  }
  Task<void> CountAndForget(uint64_t addend, int times) { co_await Count(addend, times); }

 private:
  EmptyHandler handler_;
  std::unique_ptr<MemoryPort> memory_;
  std::unique_ptr<ComputePort> compute_;
  std::unique_ptr<Endpoint> endpoint_;
};

TEST_F(SchedulerTest, RunReturnsTheValueOfATask) {
  Scheduler scheduler(endpoint());
  EXPECT_EQ(scheduler.Run(Count(5, 3)), 10U);
  EXPECT_EQ(scheduler.running(), 0U);
}

TEST_F(SchedulerTest, SpawnedTasksAllEnd) {
  Scheduler scheduler(endpoint());
  for (int i = 0; i < 100; ++i) scheduler.Spawn(CountAndForget(1, 50));
  EXPECT_EQ(scheduler.running(), 100U);
  scheduler.RunUntil(0);
  EXPECT_EQ(scheduler.running(), 0U);
  EXPECT_EQ(scheduler.Run(Count(0, 1)), 5000U);
}

TEST_F(SchedulerTest, RunUntilLeavesTheOthersRunning) {
  Scheduler scheduler(endpoint());
  for (int i = 1; i <= 10; ++i) scheduler.Spawn(CountAndForget(1, i));
  scheduler.RunUntil(4);
  EXPECT_LE(scheduler.running(), 4U);
  EXPECT_GT(scheduler.running(), 0U);
  scheduler.RunUntil(0);
  EXPECT_EQ(scheduler.Run(Count(0, 1)), 55U);
}

TEST_F(SchedulerTest, ExecuteAllWaitsForEveryBatchAndSkipsEmptyOnes) {
  Scheduler scheduler(endpoint());
  const auto run = [this]() -> Task<uint64_t> {
    const BufferLease buffer = endpoint().buffers().Allocate(64).value();
    InlineBatch<1> first;
    InlineBatch<1> empty;
    InlineBatch<1> second;
    first.Add(Verb::FetchAdd(Space::kRegion, 0, 1, buffer.address(0)));
    second.Add(Verb::FetchAdd(Space::kRegion, 0, 1, buffer.address(8)));
    const std::array<Batch*, 4> batches = {&first, nullptr, &empty, &second};
    co_await endpoint().ExecuteAll(batches);
    const std::array<Batch*, 2> nothing = {&empty, nullptr};
    co_await endpoint().ExecuteAll(nothing);
    co_return first.verbs()[0].old_value() + second.verbs()[0].old_value();
  };
  EXPECT_EQ(scheduler.Run(run()), 1U);
}

TEST_F(SchedulerTest, AnEventWakesAllItsWaitersInTheirOrder) {
  Scheduler scheduler(endpoint());
  Event event;
  bool is_open = false;
  std::vector<int> order;
  const auto wait = [&](int name) -> Task<void> {
    while (!is_open) co_await event.Wait();
    order.push_back(name);
  };
  for (const int name : {1, 2, 3}) scheduler.Spawn(wait(name));
  event.NotifyAll(scheduler);  // the condition is false still: they wait again
  while (scheduler.RunOnce()) {
  }
  EXPECT_EQ(scheduler.running(), 3U);
  is_open = true;
  event.NotifyAll(scheduler);
  scheduler.RunUntil(0);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST_F(SchedulerTest, SleepersWakeInTheOrderOfTheirTimes) {
  Scheduler scheduler(endpoint());
  std::vector<int> order;
  const auto sleep = [&](int name, nanoseconds duration) -> Task<void> {
    co_await scheduler.SleepFor(duration);
    order.push_back(name);
  };
  scheduler.Spawn(sleep(3, nanoseconds(30'000'000)));
  scheduler.Spawn(sleep(1, nanoseconds(10'000'000)));
  scheduler.Spawn(sleep(2, nanoseconds(20'000'000)));
  scheduler.RunUntil(0);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST_F(SchedulerTest, OthersRunWhileOneSleeps) {
  Scheduler scheduler(endpoint());
  bool stop = false;
  const auto sleep = [&]() -> Task<void> {
    while (!stop) co_await scheduler.SleepFor(std::chrono::milliseconds(1));
  };
  scheduler.Spawn(sleep());
  scheduler.Spawn(CountAndForget(1, 100));
  scheduler.RunUntil(1);
  EXPECT_EQ(scheduler.Run(Count(0, 1)), 100U);
  EXPECT_EQ(scheduler.running(), 1U);
  stop = true;
  scheduler.RunUntil(0);
}

TEST_F(SchedulerTest, NothingToDoIsNoProgress) {
  Scheduler scheduler(endpoint());
  EXPECT_FALSE(scheduler.RunOnce());
}

// Counts its polls. The test posts nothing on it.
class CountingEndpoint final : public EndpointDecorator {
 public:
  explicit CountingEndpoint(Endpoint& below) : EndpointDecorator(below), watched_(below) {}

  size_t Poll() override {
    ++polls;
    return EndpointDecorator::Poll();
  }
  bool IsIdle() const override { return watched_.IsIdle(); }

  uint64_t polls = 0;

 private:
  const Endpoint& watched_;
};

// Polls before sleeping, with a margin: a machine may wake the thread spuriously.
constexpr uint64_t kPollsBeforeSleep = 10'000;

TEST_F(SchedulerTest, SleepsUntilATimerIsDue) {
  CountingEndpoint counting(endpoint());
  Scheduler scheduler(counting);
  const auto sleep = [&]() -> Task<int> {
    co_await scheduler.SleepFor(std::chrono::milliseconds(100));
    co_return 7;
  };
  EXPECT_EQ(scheduler.Run(sleep()), 7);
  EXPECT_LE(counting.polls, kPollsBeforeSleep);
}

// Without a timer: sleeps without limit.
TEST_F(SchedulerTest, SleepsUntilAnotherThreadWakesATask) {
  CountingEndpoint counting(endpoint());
  Scheduler scheduler(counting);
  Scheduler::Sleeper sleeper(scheduler);
  std::atomic<bool> waits = false;
  const auto wait = [&]() -> Task<bool> {
    waits = true;
    co_return co_await Scheduler::SleepUntilWoken(sleeper);
  };
  std::thread waker([&] {
    while (!waits) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    Scheduler::Wake(sleeper);
  });
  EXPECT_TRUE(scheduler.Run(wait()));
  waker.join();
  EXPECT_LE(counting.polls, kPollsBeforeSleep);
}

TEST_F(SchedulerTest, ASleepEndsWithTheWakeOrWithItsTime) {
  using std::chrono::milliseconds;
  Scheduler scheduler(endpoint());
  Scheduler::Sleeper sleeper(scheduler);
  std::vector<bool> woken;
  const auto sleep = [&]() -> Task<void> {
    woken.push_back(co_await Scheduler::SleepUntilWoken(sleeper, milliseconds(20)));
    // The timer of the first sleep is gone: it would end this one.
    woken.push_back(co_await Scheduler::SleepUntilWoken(sleeper));
    woken.push_back(co_await Scheduler::SleepUntilWoken(sleeper, milliseconds(1)));
  };
  const auto wake_twice = [&]() -> Task<void> {
    Scheduler::Wake(sleeper);
    co_await scheduler.SleepFor(milliseconds(40));
    Scheduler::Wake(sleeper);
  };
  scheduler.Spawn(sleep());
  scheduler.Spawn(wake_twice());
  scheduler.RunUntil(0);
  EXPECT_EQ(woken, (std::vector<bool>{true, true, false}));
}

}  // namespace
}  // namespace gossamer
