#include "offload/engine/link_watch.h"

#include <memory>

#include "gtest/gtest.h"

#include "runtime/device/sim/sim_device.h"
#include "tests/support/devices.h"

namespace ebb::offload {
namespace {

// A link that moves a byte a second, and what it really does in the test.
class LinkWatchTest : public testing::Test {
 protected:
  ~LinkWatchTest() override { device->host_memory().unpin(host, kBytes); }

  // Steps of four copies of 100 bytes, each behind 50 s of compute, on a link that is
  // `speed` times as fast as planned: the copies are made longer, or shorter, by as much.
  // Those with `cancel` are cut down to a tenth on the way, and said to be.
  void step(double speed, int copies = 4, bool cancel = false) {
    for (int i = 0; i < copies; ++i) {
      const Event made =
          device->current_stream().launch(test::op("work", 50), [](void*) {});
      link.wait(made, {});
      const Event end =
          link.copy({.name = "out",
                     .direction = device::CopyInfo::Direction::kDeviceToHost,
                     .device = address,
                     .host = host,
                     .bytes = static_cast<std::size_t>(100 / speed / (cancel ? 10 : 1))});
      last = watch.queued(100, Fence(made), device->now(), end);
      if (cancel) watch.cancelled(last);
    }
    device->synchronize();
    watch.end_step(*device);
  }

  static constexpr std::size_t kBytes = 4096;
  const std::unique_ptr<device::Device> device = test::make_device({});
  std::byte* const host = device->host_memory().pin(kBytes);
  const std::uintptr_t address =
      device->memory().allocate(kBytes, Purpose::kActivations, device->current_stream());
  device::Stream& link = device->create_stream("link");
  LinkWatch watch{{1, 0}, 0};
  LinkWatch::Mark last;
};

TEST_F(LinkWatchTest, PlansWithWhatTheDeviceSaysAsLongAsTheLinkKeepsToIt) {
  for (int i = 0; i < 5; ++i) step(1);
  EXPECT_EQ(watch.rate().bytes_per_second, 1);
  EXPECT_EQ(watch.plan().replans, 0U);
}

TEST_F(LinkWatchTest, ReplansAfterTwoStepsOnASlowerLinkAndAgainWhenItIsFasterAgain) {
  step(1);
  step(0.5);
  EXPECT_EQ(watch.plan().replans, 0U);
  step(0.5);
  EXPECT_EQ(watch.plan().replans, 1U);
  EXPECT_EQ(watch.plan().step, 3U);
  EXPECT_NEAR(watch.rate().bytes_per_second, 0.5, 1e-9);
  step(1);
  step(1);
  EXPECT_EQ(watch.plan().replans, 2U);
  EXPECT_EQ(watch.rate().bytes_per_second, 1);  // As planned, not nearly.
}

TEST_F(LinkWatchTest, NoticesALinkThatIsFasterThanPlanned) {
  step(2);
  step(2);
  EXPECT_NEAR(watch.rate().bytes_per_second, 2, 1e-9);
}

TEST_F(LinkWatchTest, NoiseMakesNothingFlap) {
  for (int i = 0; i < 20; ++i) step(i % 2 == 0 ? 0.93 : 1.06);
  EXPECT_EQ(watch.plan().replans, 0U);
  for (int i = 0; i < 20; ++i) step(i % 2 == 0 ? 0.5 : 1);  // One bad step is none.
  EXPECT_EQ(watch.plan().replans, 0U);
}

TEST_F(LinkWatchTest, AFewCopiesTellNothing) {
  for (int i = 0; i < 5; ++i) step(0.5, /*copies=*/3);
  EXPECT_EQ(watch.plan().replans, 0U);
}

TEST_F(LinkWatchTest, WhatWasCancelledTellsNothing) {
  for (int i = 0; i < 5; ++i) step(1, 6, /*cancel=*/true);
  EXPECT_EQ(watch.plan().replans, 0U);
  watch.cancelled({});    // No copy.
  watch.cancelled(last);  // Its step is over.
  step(0.5);
  watch.cancelled(last);
  step(0.5);
  EXPECT_EQ(watch.plan().replans, 1U);
}

}  // namespace
}  // namespace ebb::offload
