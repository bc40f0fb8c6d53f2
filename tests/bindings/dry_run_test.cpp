#include "bindings/cli/train/dry_run.h"

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/tiny_request.h"

namespace ebb::cli {
namespace {

using test::fails_with;

class DryRunTest : public ::testing::Test {
 protected:
  DryFigures figures(const config::RunConfig& config, const DrySetup& setup) const {
    return dry_run(config, setup, interrupt_);
  }

  const Interrupt interrupt_;
};

TEST_F(DryRunTest, BehavesTheSameWithinItsOwnPeak) {
  const config::RunConfig config =
      test::tiny_request({{"checkpoint", "every:1"}, {"offload", "inputs"}});
  const DrySetup roomy{.steps = 3, .device_limit_bytes = {}, .host_reserve_bytes = 1 << 20};
  const DryFigures free = figures(config, roomy);
  ASSERT_TRUE(free.fits);
  EXPECT_GT(free.engine.offloaded_bytes, 0U);
  EXPECT_GT(free.step_seconds.value(), 0);

  DrySetup exact = roomy;
  exact.device_limit_bytes = free.memory.peak_reserved_bytes;
  const DryFigures same = figures(config, exact);
  ASSERT_TRUE(same.fits) << same.why_not;
  EXPECT_EQ(same.step_seconds, free.step_seconds);
  EXPECT_EQ(same.memory.peak_bytes, free.memory.peak_bytes);
  EXPECT_EQ(same.memory.peak_reserved_bytes, free.memory.peak_reserved_bytes);
}

TEST_F(DryRunTest, SaysWhyARunDoesNotFit) {
  const DryFigures none =
      figures(test::tiny_request(),
              {.steps = 1, .device_limit_bytes = 1 << 16, .host_reserve_bytes = 0});
  EXPECT_FALSE(none.fits);
  EXPECT_NE(none.why_not, "");
}

TEST_F(DryRunTest, AWallClockHasNoVirtualSteps) {
  const DryFigures free =
      figures(test::tiny_request({{"device", "sim:free"}}),
              {.steps = 2, .device_limit_bytes = {}, .host_reserve_bytes = 0});
  EXPECT_TRUE(free.fits);
  EXPECT_FALSE(free.step_seconds.has_value());
}

TEST_F(DryRunTest, StopsWhenItIsInterrupted) {
  kill(getpid(), SIGINT);
  while (!interrupt_.requested()) std::this_thread::yield();
  EXPECT_THAT([&] { figures(test::tiny_request(), {}); },
              fails_with(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace ebb::cli
