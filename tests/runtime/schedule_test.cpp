#include "runtime/train/schedule.h"

#include <gtest/gtest.h>

namespace ebb::train {
namespace {

TEST(ScheduleTest, WarmsUpInEqualStepsFromAboveNothingToThePeak) {
  const Schedule schedule{.peak = 4, .steps = 100, .warm_up = 4, .floor_ratio = 0.1};
  EXPECT_DOUBLE_EQ(schedule.rate(0), 1);
  EXPECT_DOUBLE_EQ(schedule.rate(1), 2);
  EXPECT_DOUBLE_EQ(schedule.rate(3), 4);
  EXPECT_DOUBLE_EQ(schedule.rate(4), 4);
}

TEST(ScheduleTest, FallsAlongAHalfCosineToItsFloor) {
  const Schedule schedule{.peak = 1, .steps = 11, .warm_up = 0, .floor_ratio = 0.2};
  EXPECT_DOUBLE_EQ(schedule.rate(0), 1);
  EXPECT_DOUBLE_EQ(schedule.rate(5), 0.6);  // Half way between the two.
  EXPECT_DOUBLE_EQ(schedule.rate(10), 0.2);
  EXPECT_DOUBLE_EQ(schedule.rate(11), 0.2);
  for (int step = 1; step < 11; ++step) {
    EXPECT_LT(schedule.rate(step), schedule.rate(step - 1));
  }
}

TEST(ScheduleTest, ARunOfOneStepTakesThePeak) {
  EXPECT_DOUBLE_EQ(Schedule::over(1, 3e-4).rate(0), 3e-4);
}

TEST(ScheduleTest, WarmsUpForATenthOfTheRunAndAtMostAHundredSteps) {
  EXPECT_EQ(Schedule::over(9, 1).warm_up, 0);
  EXPECT_EQ(Schedule::over(100, 1).warm_up, 10);
  EXPECT_EQ(Schedule::over(1'000'000, 1).warm_up, 100);
}

}  // namespace
}  // namespace ebb::train
