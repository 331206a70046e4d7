#include "compute/bench/lap_clock.h"

#include <gtest/gtest.h>

#include <thread>

namespace gossamer::bench {
namespace {

double Nanoseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::nano>(duration).count();
}

// However long the thread loses its processor between two readings.
TEST(LapClockTest, MeasuresAsTheSteadyClock) {
  constexpr double kTolerance = 0.01;
  const LapClock clock;
  const auto outer_start = std::chrono::steady_clock::now();
  const uint64_t start = clock.Now();
  const auto inner_start = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto inner_end = std::chrono::steady_clock::now();
  const uint64_t end = clock.Now();
  const auto outer_end = std::chrono::steady_clock::now();
  const auto measured = static_cast<double>(clock.NanosecondsBetween(start, end));
  EXPECT_GE(measured, Nanoseconds(inner_end - inner_start) * (1 - kTolerance));
  EXPECT_LE(measured, Nanoseconds(outer_end - outer_start) * (1 + kTolerance));
}

TEST(LapClockTest, AnEndBeforeItsStartIsNoTime) {
  const LapClock clock;
  EXPECT_EQ(clock.NanosecondsBetween(1000, 999), 0u);
}

}  // namespace
}  // namespace gossamer::bench
