#include "bindings/cli/train/stress_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebb::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

bench::SoakFigures figures() {
  bench::SoakFigures figures;
  figures.steps = 20;
  figures.events[static_cast<std::size_t>(bench::SoakEvent::kHeld)] = 7;
  figures.graphs_alive_at_once = 5;
  figures.gradients_compared = 1234;
  figures.refusals = 6;
  figures.order = {.accesses = 99, .violations = 0};
  bench::SoakWindow window;
  window.first_step = 3;
  window.samples = 2;
  window.most.device_bytes = std::size_t{3} << 20;
  window.most.engine_blocks = 11;
  figures.windows = {window};
  return figures;
}

TEST(StressReportTest, HasEveryFigureForMachines) {
  const auto json = to_json(figures(), SoakEnd::kPass);
  EXPECT_EQ(json["passed"], true);
  EXPECT_EQ(json["events"]["held"], 7);
  EXPECT_EQ(json["events"].size(), bench::kSoakEvents);
  EXPECT_EQ(json["graphs_alive_at_once"], 5);
  EXPECT_EQ(json["refusals"], 6);
  EXPECT_EQ(json["windows"][0]["first_step"], 3);
  EXPECT_EQ(json["windows"][0]["most"]["engine_blocks"], 11);
  EXPECT_EQ(json["violations"], 0);
}

TEST(StressReportTest, SaysTheSameInWords) {
  EXPECT_THAT(
      to_text(figures(), SoakEnd::kPass),
      AllOf(HasSubstr("stress, 20 steps: passed"), HasSubstr("held 7"),
            HasSubstr("6 steps without room"), HasSubstr("1234 compared bit for bit"),
            HasSubstr("99 accesses checked, 0 violations"), HasSubstr("3 MiB"),
            Not(HasSubstr("PROBLEM"))));
}

TEST(StressReportTest, BeginsWithWhatWentWrong) {
  bench::SoakFigures bad = figures();
  bad.problems = {"step 7 (held): gradients differ"};
  EXPECT_EQ(to_json(bad, SoakEnd::kFail)["passed"], false);
  EXPECT_THAT(to_text(bad, SoakEnd::kFail),
              AllOf(HasSubstr("20 steps: FAILED"), HasSubstr("PROBLEM: step 7 (held)")));
}

TEST(StressReportTest, SaysOfASoakWithoutAProblemThatDidNotEndThatItDidNotPass) {
  EXPECT_EQ(to_json(figures(), SoakEnd::kFail)["passed"], false);
  EXPECT_TRUE(to_json(figures(), SoakEnd::kInterrupted)["passed"].is_null());
  EXPECT_THAT(to_text(figures(), SoakEnd::kInterrupted), HasSubstr("steps: INTERRUPTED"));
}

}  // namespace
}  // namespace ebb::cli
