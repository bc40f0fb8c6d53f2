#include "bench/soak/soak_programme.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "kernels/cpu/cpu_kernels.h"
#include "tests/support/sim_devices.h"

namespace ebb::bench {
namespace {

using namespace test;
using testing::IsEmpty;

// Each event by itself, besides plain steps.
class SoakProgrammeTest : public testing::TestWithParam<std::size_t> {};

TEST_P(SoakProgrammeTest, AnEventLeavesNothingBehindAndChangesNoGradient) {
  set_cpu_threads(1);
  const auto event = static_cast<SoakEvent>(GetParam());
  const auto device = checked_sim({device::Order::Kind::kFuzz, 9});
  const auto reference = device::make_sim_device(sim_options(), cpu_kernels());
  SoakOptions options;
  options.seed = 3;
  options.weights = {};
  options.weights[GetParam()] = 1;
  options.weights[0] += 0.2;
  SoakFigures figures;
  {
    SoakProgramme programme(*device, *reference, options, figures);
    const SoakMemory before = programme.memory();
    std::int64_t quiet = 0;
    for (std::int64_t step = 1; step <= 25; ++step) {
      EXPECT_THAT(programme.step(step), IsEmpty()) << step;
      if (!programme.quiet()) continue;
      ++quiet;
      const SoakMemory now = programme.memory();
      EXPECT_EQ(now.device_bytes, before.device_bytes);
      EXPECT_EQ(now.host_bytes, 0U);
      EXPECT_EQ(now.engine_blocks, 0U);
      EXPECT_EQ(now.engine_backwards, 0U);
    }
    EXPECT_GT(quiet, 0);
    EXPECT_GT(figures.events[GetParam()], 10);
    EXPECT_GT(programme.engine_figures().blocks, 0U);
  }
  const bool throws =
      event == SoakEvent::kThrowsInForward || event == SoakEvent::kThrowsInRecompute ||
      event == SoakEvent::kThrowsInBackward || event == SoakEvent::kWrittenInPlace;
  EXPECT_EQ(figures.exceptions, throws ? figures.events[GetParam()] : 0);
  EXPECT_EQ(device->order().violations, 0U);
  EXPECT_EQ(device->memory().figures().lent.total(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Events, SoakProgrammeTest,
                         testing::Range<std::size_t>(0, kSoakEvents),
                         [](const auto& event) {
                           return std::string(name(static_cast<SoakEvent>(event.param)));
                         });

}  // namespace
}  // namespace ebb::bench
