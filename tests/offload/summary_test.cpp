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
  EXPECT_THAT(text,
              HasSubstr("3.00 GiB to the host, 2.00 GiB back, 1.00 GiB needed while"));
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

TEST(SummaryTest, SaysLoudlyWhenNothingWasOffloaded) {
  Report report = sound();
  report.engine = {};
  report.engine.kept_bytes = 100;
  EXPECT_THAT(summary(report), HasSubstr("WARNING: nothing was offloaded"));
  EXPECT_THAT(summary(report), HasSubstr("--min-offload-bytes"));
  report.engine.no_room_bytes = 100;
  EXPECT_THAT(summary(report), HasSubstr("--host-budget"));
  report.config["offload"] = "none";
  EXPECT_THAT(summary(report), Not(HasSubstr("WARNING")));
}

TEST(SummaryTest, SaysWhatHostMemoryHadNoRoomFor) {
  Report report = sound();
  EXPECT_THAT(summary(report), Not(HasSubstr("WARNING")));
  report.engine.no_room_bytes = std::size_t{3} << 20;
  EXPECT_THAT(summary(report), HasSubstr("WARNING: not all was offloaded"));
  EXPECT_THAT(summary(report), HasSubstr("--host-budget"));
  report.device.memory.peak_bytes = *report.device.peak_without_bytes;
  EXPECT_THAT(summary(report), HasSubstr("but the peak did not: host memory had no room"));
}

TEST(SummaryTest, SaysLoudlyWhenThePeakDidNotMove) {
  Report report = sound();
  report.device.memory.peak_bytes = std::size_t{890} << 20;
  report.device.memory.at_peak[Purpose::kOptimizer] = std::size_t{600} << 20;
  EXPECT_THAT(summary(report), HasSubstr("but the peak did not"));
  EXPECT_THAT(summary(report), HasSubstr("most of it is optimizer, 600 MiB of 890 MiB"));
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
  EXPECT_THAT(text, HasSubstr("--device-budget 1073741824 (1.00 GiB)"));
  EXPECT_THAT(text, Not(HasSubstr("step time")));
}

TEST(TextTest, SizesAndTimesHaveThreeDigits) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.50 KiB");
  EXPECT_EQ(bytes_text(12.5 * 1048576), "12.5 MiB");
  EXPECT_EQ(bytes_text(300.0 * 1073741824), "300 GiB");
  EXPECT_EQ(seconds_text(1.2345), "1.23 s");
  EXPECT_EQ(seconds_text(0.0456), "45.6 ms");
  EXPECT_EQ(seconds_text(7.8e-6), "7.8 us");
}

}  // namespace
}  // namespace ebb::offload
