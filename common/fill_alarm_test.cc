#include "common/fill_alarm.h"

#include <gtest/gtest.h>

namespace gossamer {
namespace {

TEST(FillAlarm, TellsEachStepOnceUntilMemoryIsFreed) {
  FillAlarm alarm;
  EXPECT_EQ(alarm.Update(0, 0), 0u);
  EXPECT_EQ(alarm.Update(799, 1000), 0u);
  EXPECT_EQ(alarm.Update(800, 1000), 80u);
  EXPECT_EQ(alarm.Update(850, 1000), 0u);
  EXPECT_EQ(alarm.Update(760, 1000), 0u);
  EXPECT_EQ(alarm.Update(800, 1000), 0u) << "it has not fallen by 5 percent";
  EXPECT_EQ(alarm.Update(960, 1000), 95u) << "the last of two steps";
  EXPECT_EQ(alarm.Update(1000, 1000), 0u);
  EXPECT_EQ(alarm.Update(740, 1000), 0u);
  EXPECT_EQ(alarm.Update(901, 1000), 90u);
}

}  // namespace
}  // namespace gossamer
