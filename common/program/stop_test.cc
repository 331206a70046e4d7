#include "common/program/stop.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace gossamer {
namespace {

TEST(StopTest, ASignalRaisesIt) {
  Stop stop;
  const StopOnSignals signals(stop);
  EXPECT_FALSE(stop.raised());
  ASSERT_EQ(std::raise(SIGINT), 0);
  EXPECT_EQ(stop.signal(), SIGINT);
  EXPECT_EQ(stop.exit_code(), 130);
  pollfd polled{stop.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&polled, 1, 0), 1);
  stop.Reset();
  EXPECT_FALSE(stop.raised());
  EXPECT_EQ(poll(&polled, 1, 0), 0);
}

// timeout(1) sends two: to the program, and to its group.
TEST(StopTest, TwoAtOnceAreOne) {
  Stop stop;
  const StopOnSignals signals(stop);
  ASSERT_EQ(std::raise(SIGTERM), 0);
  ASSERT_EQ(std::raise(SIGTERM), 0);
  EXPECT_EQ(stop.signal(), SIGTERM);
}

TEST(StopDeathTest, ALaterOneEndsTheProgram) {
  EXPECT_EXIT(
      {
        Stop stop;
        const StopOnSignals signals(stop);
        std::raise(SIGTERM);
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        std::raise(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace gossamer
