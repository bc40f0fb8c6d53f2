#include "runtime/device/check/check_stream.h"

#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/devices.h"
#include "tests/support/errors.h"

namespace ebb::device {
namespace {

constexpr WaitTag kTag{StallCause::kHost, "test"};

class CheckStreamTest : public ::testing::Test {
 protected:
  CheckStreamTest() {
    shared_.throws = true;
    shared_.checker.lend(kAddress, kBytes);
  }

  // Nothing is there: the device is dry.
  void write(Stream& stream) {
    const std::vector<Access> accesses{{kAddress, kBytes, Access::Mode::kWrite}};
    stream.launch(test::op("write", 1, accesses), [](void*) {});
  }

  static constexpr std::uintptr_t kAddress = 4096;
  static constexpr std::size_t kBytes = 512;
  const std::unique_ptr<Device> device_ = test::make_device({"dry", {}, true});
  CheckShared shared_;
  CheckStream first_{shared_, device_->current_stream(), "first"};
  CheckStream second_{shared_, device_->create_stream("second"), "second"};
};

TEST_F(CheckStreamTest, EventsNameTheStreamOutsideAndTheDevicesOwnBelow) {
  write(first_);
  const Event outer = first_.record();
  EXPECT_EQ(outer.source(), &first_);
  const Event inner = shared_.names.inner(outer);
  EXPECT_EQ(inner.source(), &first_.inner());
  EXPECT_EQ(inner.ticket(), outer.ticket());
  EXPECT_EQ(shared_.names.outer(inner), outer);
  Fence fence(outer);
  fence.add(second_.record());
  shared_.names.inner(fence).for_each([&](const Event& event) {
    EXPECT_TRUE(event.source() == &first_.inner() || event.source() == &second_.inner());
  });
  const auto other = test::make_device({"dry", {}, true});
  const Event foreign = other->current_stream().record();
  EXPECT_EQ(shared_.names.inner(foreign), foreign) << "not of this device";
}

TEST_F(CheckStreamTest, ThrowsWhereTwoStreamsWriteWithoutAnOrder) {
  write(first_);
  EXPECT_THAT([&] { write(second_); },
              test::fails_with(absl::StatusCode::kInternal, "order violation", "second"));
}

TEST_F(CheckStreamTest, AWaitOrASignalIsAnOrder) {
  write(first_);
  second_.wait(first_.record(), kTag);
  write(second_);
  std::uint64_t value = 0;
  CheckTimeline timeline(shared_, device_->acquire_timeline(value));
  second_.signal(timeline, value);
  first_.wait(timeline.at(value), kTag);
  write(first_);
  EXPECT_EQ(shared_.checker.figures().violations, 0U);
}

TEST_F(CheckStreamTest, WhoeverSeesAnEndKnows) {
  write(first_);
  first_.record().wait();
  write(second_);
  second_.synchronize();
  write(first_);
  EXPECT_EQ(shared_.checker.figures().violations, 0U);
}

}  // namespace
}  // namespace ebb::device
