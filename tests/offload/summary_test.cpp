#include "offload/report/summary.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebb::offload {
namespace {

using testing::HasSubstr;
using testing::Not;

Report sound() {
  Report report;
  report.config["offload"] = "inputs";
  report.model = "gpt2-nano";
  report.steps = 20;
  report.loss = {5.5, 4.25};
  report.device.name = "sim:a100-pcie4";
  report.device.budget_bytes = std::size_t{512} << 20;
  report.device.memory.peak_bytes = std::size_t{400} << 20;
  report.device.memory.peak_activation_bytes = std::size_t{60} << 20;
  report.device.peak_without_bytes = std::size_t{900} << 20;
  report.engine.blocks = 20;
  report.engine.offloaded_bytes = report.engine.d2h_bytes = std::size_t{3} << 30;
  report.engine.h2d_bytes = std::size_t{2} << 30;
  report.engine.revived_bytes = std::size_t{1} << 30;
  report.engine.hits = 18;
  report.time.steps = 19;
  report.time.step.step = 0.022;
  report.time.step.stall[static_cast<std::size_t>(device::StallCause::kD2HBacklog)] = 3e-4;
  report.time.bound.seconds = 0.0215;
  report.step_seconds_without = 0.02;
  report.gradients.verified = report.gradients.bit_equal = true;
  report.order = {.checked = true, .accesses = 77, .violations = 0};
  return report;
}

TEST(SummaryTest, SaysWhatARunNeededMovedAndTook) {
  const std::string text = summary(sound());
  EXPECT_THAT(text, HasSubstr("loss 5.5000 -> 4.2500"));
  EXPECT_THAT(text, HasSubstr("peak 400 MiB of 512 MiB"));
  EXPECT_THAT(text, HasSubstr("without: peak 900 MiB"));
  EXPECT_THAT(text, HasSubstr("3 GiB to the host, 2 GiB back, 1 GiB needed while"));
  EXPECT_THAT(text, HasSubstr("22 ms (virtual clock); without: 20 ms (+10.0 %)"));
  EXPECT_THAT(text, HasSubstr("bound: 21.5 ms (+2.3 %)"));
  EXPECT_THAT(text, HasSubstr("d2h_backlog 300 us"));
  EXPECT_THAT(text, HasSubstr("equal bit for bit"));
  EXPECT_THAT(text, HasSubstr("77 accesses checked, 0 violations"));
  EXPECT_THAT(text, Not(HasSubstr("WARNING")));
}

TEST(SummaryTest, ItsLinesFitATerminal) {
  const std::string text = summary(sound());
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos;
       end = text.find('\n', begin)) {
    EXPECT_LE(end - begin, 100U) << text.substr(begin, end - begin);
    begin = end + 1;
  }
}

TEST(SummaryTest, EndsWithTheWarnings) {
  Report report = sound();
  report.warnings = {{"a_code", "this did not happen"}, {"another", "nor did that"}};
  EXPECT_THAT(summary(report), testing::EndsWith("  WARNING: this did not happen.\n"
                                                 "  WARNING: nor did that.\n"));
}

TEST(SummaryTest, SaysWhatWasNotVerifiedAndWhatIsWrong) {
  Report report = sound();
  report.gradients = {};
  report.order = {};
  EXPECT_THAT(summary(report), HasSubstr("not compared (--verify-gradients)"));
  EXPECT_THAT(summary(report), HasSubstr("not checked (--check)"));
  report.gradients.verified = true;
  report.gradients.max_abs_difference = 0.5;
  EXPECT_THAT(summary(report), HasSubstr("WRONG: they differ"));
}

TEST(SummaryTest, ARefusedRunIsToldWithWhatWouldFit) {
  Report report;
  report.model = "gpt2";
  report.error = RefusedRun{"RESOURCE_EXHAUSTED", "needs more", std::size_t{1} << 30};
  const std::string text = summary(report);
  EXPECT_THAT(text, HasSubstr("FAILED: needs more"));
  EXPECT_THAT(text, HasSubstr("--device-budget 1073741824 (1 GiB)"));
  EXPECT_THAT(text, Not(HasSubstr("step time")));
}

TEST(TextTest, TimesHaveThreeDigits) {
  EXPECT_EQ(seconds_text(1.2345), "1.23 s");
  EXPECT_EQ(seconds_text(0.0456), "45.6 ms");
  EXPECT_EQ(seconds_text(7.8e-6), "7.8 us");
}

}  // namespace
}  // namespace ebb::offload
