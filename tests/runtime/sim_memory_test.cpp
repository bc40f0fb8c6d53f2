#include "runtime/device/sim/sim_memory.h"

#include <array>

#include <gtest/gtest.h>

#include "allocator/error.h"
#include "tests/support/devices.h"
#include "tests/support/forward_device.h"

namespace ebb::device {
namespace {

using test::op;

class SimMemoryTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 1024;

  std::uintptr_t allocate(std::size_t bytes = kBytes,
                          Purpose purpose = Purpose::kActivations) {
    return device_->memory().allocate(bytes, purpose, device_->current_stream());
  }
  Event use(std::uintptr_t address, double seconds) {
    const std::array<Access, 1> accesses{Access{address, kBytes, Access::Mode::kReadWrite}};
    return device_->current_stream().launch(op("use", seconds, accesses), [](void*) {});
  }
  MemoryFigures figures() { return device_->memory().figures(); }

  std::unique_ptr<Device> device_ = test::make_device({"dry", {}, true});
};

TEST_F(SimMemoryTest, CountsByPurposeWhatTheClockHasReached) {
  const auto weights = allocate(kBytes, Purpose::kParameters);
  const auto saved = allocate();
  use(weights, 1);
  use(saved, 1);
  EXPECT_EQ(figures().lent.total(), 2 * kBytes);
  EXPECT_EQ(figures().live.total(), kBytes);  // It is 0 on the host's clock.
  device_->synchronize();
  EXPECT_EQ(figures().live[Purpose::kParameters], kBytes);
  EXPECT_EQ(figures().live[Purpose::kActivations], kBytes);
  EXPECT_EQ(figures().peak_activation_bytes, kBytes);
  EXPECT_EQ(figures().peak_bytes, 2 * kBytes);
}

TEST_F(SimMemoryTest, RoundsToTheGranule) {
  use(allocate(1), 1);
  device_->synchronize();
  EXPECT_EQ(figures().live.total(), DeviceArena::kGranularityBytes);
}

TEST_F(SimMemoryTest, ReservedBytesAreTheArenasAndInTheHostsOrder) {
  const auto a = allocate();
  device_->memory().free(a, Fence(use(a, 5)));
  const auto b = allocate();  // The stream's own order: the same bytes.
  EXPECT_EQ(a, b);
  EXPECT_EQ(figures().reserved_bytes, kBytes);
  EXPECT_EQ(figures().limit_bytes, std::size_t{1} << 24);
}

TEST_F(SimMemoryTest, WhatIsGivenToAStreamThatCannotWaitIsFreeAgain) {
  class Unwilling final : public test::ForwardStream {
   public:
    using ForwardStream::ForwardStream;
    void wait(const Event&, const WaitTag&) override {
      throw Error(absl::StatusCode::kInternal, "it cannot wait");
    }
  };
  Stream& other = device_->create_stream("other");
  const auto whole = allocate(std::size_t{1} << 24);
  device_->memory().free(whole, Fence(use(whole, 5)));
  Unwilling unwilling(other);
  EXPECT_THROW((void)device_->memory().allocate(kBytes, Purpose::kActivations, unwilling),
               Error);
  EXPECT_EQ(figures().lent.total(), 0U);
  // Still not without waiting for who used it.
  const Event before = other.record();
  EXPECT_EQ(device_->memory().allocate(std::size_t{1} << 24, Purpose::kActivations, other),
            whole);
  EXPECT_NE(other.record(), before);
}

TEST_F(SimMemoryTest, AStreamWaitsForWhoStillUsesWhatItIsGiven) {
  Stream& other = device_->create_stream("other");
  const auto a = allocate();
  const auto rest = allocate((std::size_t{1} << 24) - kBytes);
  device_->memory().free(a, Fence(use(a, 7)));
  const auto b = device_->memory().allocate(kBytes, Purpose::kActivations, other);
  EXPECT_EQ(a, b);
  const std::array<Access, 1> accesses{Access{b, kBytes, Access::Mode::kWrite}};
  const Event event = other.launch(op("next", 1, accesses), [](void*) {});
  device_->synchronize();
  EXPECT_EQ(device_->ended_at(event), 8);
  EXPECT_EQ(figures().peak_bytes, kBytes);  // Never both, and the rest was never touched.
  device_->memory().free(rest, {});
}

TEST_F(SimMemoryTest, ProbesTouchNoMemory) {
  const auto a = allocate();
  const std::array<Access, 1> accesses{Access{a, kBytes, Access::Mode::kRead}};
  OpInfo probe = op("probe", 1, accesses);
  probe.probe = true;
  device_->current_stream().launch(probe, [](void*) {});
  device_->synchronize();
  EXPECT_EQ(figures().live.total(), 0U);
}

TEST_F(SimMemoryTest, AHeldBlockCountsUntilItsLastCopyThoughItIsGivenBack) {
  Stream& other = device_->create_stream("other");
  std::byte* host = device_->host_memory().pin(kBytes);
  const auto a = allocate();
  use(a, 1);
  const Hold hold = device_->memory().hold(a);
  ASSERT_NE(hold, 0U);
  std::uint64_t first = 0;
  Timeline& timeline = device_->acquire_timeline(first);
  other.wait(device_->current_stream().record(), {});
  other.call_back([&](const absl::Status&) {
    other.copy({"late", CopyInfo::Direction::kDeviceToHost, a, host, kBytes, hold});
    device_->memory().release(hold);
    other.signal(timeline, first);
  });
  device_->memory().free(a, Fence(timeline.at(first)));
  device_->current_stream().record().wait();
  EXPECT_EQ(figures().live.total(), kBytes);
  device_->synchronize();
  EXPECT_EQ(figures().live.total(), 0U);
  EXPECT_EQ(device_->now(), 1 + kBytes);
  device_->host_memory().unpin(host, kBytes);
}

TEST_F(SimMemoryTest, PeaksStartAgainWhenTheyAreReset) {
  const auto a = allocate();
  use(a, 1);
  device_->memory().free(a, Fence(device_->current_stream().record()));
  device_->synchronize();
  device_->memory().reset_peaks();
  EXPECT_EQ(figures().peak_bytes, 0U);
}

}  // namespace
}  // namespace ebb::device
