// Memory that is lent again, under the order checker.

#include "runtime/device/check/fresh_memory.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include <gtest/gtest.h>

#include "runtime/device/check/check_device.h"
#include "tests/support/devices.h"

namespace ebb::device {
namespace {

using test::op;
using Mode = Access::Mode;
using Direction = CopyInfo::Direction;

constexpr WaitTag kTag{StallCause::kHost, "test"};
constexpr std::size_t kBytes = 8192;

TEST(FreshMemoryTest, PoisonsMemoryThatIsLentAgainBeforeItsFirstUse) {
  const auto device = make_check_device(test::make_device({"time", {}}));
  Stream& stream = device->current_stream();
  const auto a = device->memory().allocate(kBytes, Purpose::kActivations, stream);
  auto* values = reinterpret_cast<float*>(a);
  constexpr std::ptrdiff_t kCount = kBytes / sizeof(float);
  const auto run = [&](std::size_t begin, std::size_t count, Body body) {
    const Access access{a + begin, count, Mode::kReadWrite};
    stream.launch(op("use", 1, {&access, 1}), std::move(body));
  };
  run(0, kBytes, [&](void*) { std::fill_n(values, kCount, 1.0F); });
  device->memory().free(a, Fence(stream.record()));
  ASSERT_EQ(device->memory().allocate(kBytes, Purpose::kActivations, stream), a);
  std::ptrdiff_t poisoned = 0;
  const auto count = [&](void*) {
    poisoned = std::count_if(values, values + kCount,
                             [](float value) { return std::isnan(value); });
  };
  // What an op declares, from the odd byte on, is not there for it; the rest still is.
  run(4 * 10 + 1, 4 * 20, count);
  stream.synchronize();
  EXPECT_EQ(poisoned, 20);  // The last value has but its lowest byte from us.
  run(0, kBytes, count);
  stream.synchronize();
  EXPECT_EQ(poisoned, kCount);
  run(0, kBytes, [&](void*) { std::fill_n(values, kCount, 2.0F); });
  run(0, kBytes, count);  // It has been touched.
  stream.synchronize();
  EXPECT_EQ(poisoned, 0);
}

TEST(FreshMemoryTest, PoisonsNothingThatAnAnnouncedCopyBringsBeforeTheOp) {
  const auto device = make_check_device(test::make_device({"time", {}}));
  Stream& compute = device->current_stream();
  Stream& in = device->create_stream("in");
  std::uint64_t first = 0;
  Timeline& timeline = device->acquire_timeline(first);
  std::byte* host = device->host_memory().pin(kBytes);
  std::fill_n(host, kBytes, std::byte{7});
  const auto a = device->memory().allocate(kBytes, Purpose::kActivations, in);
  device->memory().free(a, {});
  ASSERT_EQ(device->memory().allocate(kBytes, Purpose::kActivations, in), a);
  const Hold hold = device->memory().hold(a);
  compute.wait(timeline.at(first), kTag);
  const Access access{a, kBytes, Mode::kRead};
  std::byte seen{};
  compute.launch(op("use", 1, {&access, 1}),
                 [&](void*) { seen = *reinterpret_cast<const std::byte*>(a); });
  in.copy({"late", Direction::kHostToDevice, a, host, kBytes, hold});
  in.signal(timeline, first);
  device->memory().release(hold);
  device->synchronize();
  EXPECT_EQ(seen, std::byte{7});
  device->host_memory().unpin(host, kBytes);
}

TEST(FreshMemoryTest, PoisoningTakesNoPlaceInAStreamsOrder) {
  const auto device = make_check_device(test::make_device({"time", {}}));
  Stream& stream = device->current_stream();
  const auto a = device->memory().allocate(kBytes, Purpose::kActivations, stream);
  device->memory().free(a, {});
  const Event before = stream.record();
  ASSERT_EQ(device->memory().allocate(kBytes, Purpose::kActivations, stream), a);
  EXPECT_EQ(stream.record(), before);
}

}  // namespace
}  // namespace ebb::device
