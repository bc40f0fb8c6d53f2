// What a device keeps for itself does not grow with the number of steps, streams,
// timelines, blocks and failures that it has seen.

#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/device/check/check_device.h"
#include "runtime/device/owned.h"
#include "runtime/device/sim/event_model.h"
#include "tests/support/devices.h"

namespace ebb::device {
namespace {

using test::DeviceKind;
using test::op;

constexpr WaitTag kTag{StallCause::kHost, "test"};
constexpr std::size_t kBytes = 8192;

// Nothing where a sanitizer keeps the heap.
std::size_t heap_bytes() {
  const auto figures = mallinfo2();
  return figures.uordblks + figures.hblkhd;
}

struct Growth {
  DeviceKind kind;
  bool checked = false;
};

std::vector<Growth> devices() {
  using Kind = Order::Kind;
  std::vector<Growth> result;
  for (const bool checked : {false, true}) {
    for (const DeviceKind& kind :
         {DeviceKind{"time", {Kind::kTime}}, DeviceKind{"eager", {Kind::kEager}},
          DeviceKind{"fuzz", {Kind::kFuzz, 3}}, DeviceKind{"dry", {}, true},
          DeviceKind{"free", {}, false, true}}) {
      result.push_back({kind, checked});
    }
  }
  return result;
}

class DeviceGrowthTest : public ::testing::TestWithParam<Growth> {
 protected:
  DeviceGrowthTest() : device_(test::make_device(GetParam().kind)) {
    if (GetParam().checked) device_ = make_check_device(std::move(device_));
    host_ = device_->host_memory().pin(kBytes);
    if (heap_bytes() != 0) fill_history();
  }
  ~DeviceGrowthTest() override { device_->host_memory().unpin(host_, kBytes); }

  // When things ended is kept for so many tickets of each source: there are that many.
  void fill_history() {
    OwnedStream a(*device_, "a");
    OwnedStream b(*device_, "b");
    OwnedTimeline ends(*device_);
    for (std::size_t i = 0; i < EventModel::kHistory; ++i) {
      const std::uint64_t value = ends.take();
      a->signal(*ends, value);
      b->wait((*ends).at(value), kTag);
      device_->current_stream().wait(a->record(), kTag);
      if (i % 512 == 0) device_->synchronize();
    }
  }

  // `step` runs as often as it takes for the first figures, and then `count` times more.
  template <typename Step>
  void expect_flat(int warm, int count, Step step) {
    if (heap_bytes() == 0) GTEST_SKIP() << "this heap has no figures";
    for (int i = 0; i < warm; ++i) step(i);
    const std::size_t before = heap_bytes();
    for (int i = 0; i < count; ++i) step(warm + i);
    const std::size_t after = heap_bytes();
    EXPECT_LE(after, before + 4096) << "after " << count << " more";
  }

  // Something of everything: `out` copies, from a callback of `gate`.
  void use(Stream& gate, Stream& out, OwnedTimeline& ends, std::size_t bytes) {
    Stream& compute = device_->current_stream();
    const std::uintptr_t address =
        device_->memory().allocate(bytes, Purpose::kActivations, compute);
    const Access access{address, bytes, Access::Mode::kWrite};
    compute.launch(op("make", 1, {&access, 1}), [](void*) {});
    const Event made = compute.record();
    gate.wait(made, kTag);
    const Hold hold = device_->memory().hold(address);
    const std::uint64_t value = ends.take();
    const Event end = (*ends).at(value);
    gate.call_back([&, this, made, address, bytes, hold, value](const absl::Status&) {
      out.wait(made, kTag);
      out.copy({"out", CopyInfo::Direction::kDeviceToHost, address, host_, bytes, hold});
      device_->memory().release(hold);
      out.signal(*ends, value);
    });
    device_->memory().free(address, Fence(end));
    compute.wait(end, kTag);
  }

  std::unique_ptr<Device> device_;
  std::byte* host_ = nullptr;
};

TEST_P(DeviceGrowthTest, NewStreamsAndTimelinesEveryStepCostNothing) {
  expect_flat(1000, 10000, [&](int) {
    OwnedStream gate(*device_, "of a step");
    OwnedStream out(*device_, "of a step, too");
    OwnedTimeline ends(*device_);
    use(*gate, *out, ends, kBytes);
    ends.last().wait();
  });
}

TEST_P(DeviceGrowthTest, TwoThousandStepsCostNothing) {
  OwnedStream gate(*device_, "gate");
  OwnedStream out(*device_, "out");
  OwnedTimeline ends(*device_);
  expect_flat(2000, 2000, [&](int step) {
    for (std::size_t block = 1; block <= 12; ++block) {
      const auto bytes = 512 + (block * 677 + static_cast<std::size_t>(step) * 512) % 7000;
      use(*gate, *out, ends, bytes);
    }
    device_->synchronize();
  });
}

TEST_P(DeviceGrowthTest, FailuresCostNothing) {
  if (GetParam().kind.dry) return;  // Nothing runs, so nothing fails.
  expect_flat(1000, 2000, [&](int) {
    OwnedStream gate(*device_, "of a step");
    OwnedStream out(*device_, "of a step, too");
    OwnedTimeline ends(*device_);
    device_->current_stream().launch(op("explode", 1),
                                     [](void*) { throw std::runtime_error("bang"); });
    use(*gate, *out, ends, kBytes);
    EXPECT_THROW(device_->synchronize(), Error);
  });
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceGrowthTest, ::testing::ValuesIn(devices()),
                         [](const auto& growth) {
                           return (growth.param.checked ? "checked_" : "") +
                                  growth.param.kind.name;
                         });

}  // namespace
}  // namespace ebb::device
