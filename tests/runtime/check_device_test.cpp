#include "runtime/device/check/check_device.h"

#include <array>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/device_contract.h"
#include "tests/support/devices.h"

namespace ebb::device {
namespace {

using test::DeviceContract;
using test::DeviceKind;
using test::DeviceMaker;
using test::op;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr WaitTag kTag{StallCause::kHost, "test"};
constexpr std::size_t kBytes = 8192;
using Mode = Access::Mode;
using Direction = CopyInfo::Direction;

DeviceMaker maker(const DeviceKind& kind) {
  return {kind.name, [kind] { return make_check_device(test::make_device(kind)); }};
}

// The decorator keeps the contract of what it decorates, and finds nothing to complain of:
// it throws if it does.
INSTANTIATE_TEST_SUITE_P(
    Check, DeviceContract,
    ::testing::Values(maker({"time", {Order::Kind::kTime}}),
                      maker({"eager", {Order::Kind::kEager}}),
                      maker({"fuzz1", {Order::Kind::kFuzz, 1}}),
                      maker({"fuzz2", {Order::Kind::kFuzz, 2}}), maker({"dry", {}, true}),
                      maker({"free", {}, false, true}),
                      maker({"free_fuzz", {Order::Kind::kFuzz, 4}, false, true})),
    test::name_of);

// Mistakes of other systems, planted: each program has the wait that it needs, or lacks it.
class PlantedRace : public ::testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override {
    device_ =
        make_check_device(test::make_device(GetParam()), {.throw_on_violation = false});
    first_ = &device_->current_stream();
    out_ = &device_->create_stream("d2h");
    in_ = &device_->create_stream("h2d");
    host_ = device_->host_memory().pin(2 * kBytes);
  }
  void TearDown() override {
    device_->synchronize();
    device_->host_memory().unpin(host_, 2 * kBytes);
  }

  Stream& compute() { return device_->current_stream(); }
  std::uintptr_t allocate(Stream& stream) {
    return device_->memory().allocate(kBytes, Purpose::kActivations, stream);
  }
  void run(Stream& stream, const char* name, std::uintptr_t address, Mode mode) {
    const std::array<Access, 1> accesses{Access{address, kBytes, mode}};
    stream.launch(op(name, 10, accesses), [](void*) {});
  }
  void fetch(Stream& stream, std::uintptr_t address, std::size_t at = 0) {
    stream.copy({"offload", Direction::kDeviceToHost, address, host_ + at, kBytes});
  }
  void send(Stream& stream, std::uintptr_t address, std::size_t at = 0) {
    stream.copy({"fetch", Direction::kHostToDevice, address, host_ + at, kBytes});
  }
  void wait(Stream& stream, const Event& event) { stream.wait(event, kTag); }

  // Runs `program` as it should be, and without the step that makes it right.
  template <typename Program>
  void compare(Program program, const char* one, const char* other) {
    program(true);
    device_->synchronize();
    EXPECT_THAT(device_->violations(), IsEmpty()) << "a clean program";
    program(false);
    device_->synchronize();
    EXPECT_GT(device_->order().violations, 0U);
    const auto words = device_->violations();
    ASSERT_FALSE(words.empty()) << "the race was not found";
    EXPECT_THAT(words.front(), AllOf(HasSubstr(one), HasSubstr(other), HasSubstr("[0x")));
  }

  std::unique_ptr<CheckDevice> device_;
  Stream* first_ = nullptr;
  Stream* out_ = nullptr;
  Stream* in_ = nullptr;
  std::byte* host_ = nullptr;
};

// 1. A saved tensor is freed while the copy stream still reads its memory.
TEST_P(PlantedRace, FreedWhileTheCopyStillReads) {
  // All the rest, so that the arena must hand the same bytes on.
  const std::uintptr_t rest = device_->memory().allocate((std::size_t{1} << 24) - kBytes,
                                                         Purpose::kParameters, compute());
  compare(
      [&](bool right) {
        const std::uintptr_t saved = allocate(compute());
        run(compute(), "make", saved, Mode::kWrite);
        wait(*out_, compute().record());
        fetch(*out_, saved);
        Fence last_use(compute().record());
        if (right) last_use.add(out_->record());
        device_->memory().free(saved, last_use);
        const std::uintptr_t next = allocate(compute());
        ASSERT_EQ(next, saved) << "the arena did not hand the bytes on";
        run(compute(), "next", next, Mode::kWrite);
        device_->memory().free(next, Fence(compute().record()));
        out_->record().wait();
        compute().record().wait();
      },
      "'offload' on stream 'd2h' reads", "'next' on stream 'compute' writes");
  device_->memory().free(rest, {});
}

// 2. A pinned block is given to the next save before the last copy out of it is done.
TEST_P(PlantedRace, PinnedBlockGivenAwayBeforeItsLastCopyIsDone) {
  const std::uintptr_t a = allocate(compute());
  const std::uintptr_t b = allocate(compute());
  run(compute(), "make", a, Mode::kWrite);
  run(compute(), "make", b, Mode::kWrite);
  wait(*out_, compute().record());
  wait(*in_, compute().record());
  compare(
      [&](bool right) {
        fetch(*out_, a);
        wait(*in_, out_->record());
        send(*in_, b);
        if (right) in_->record().wait();  // The pool's fence.
        fetch(*out_, a);
        out_->record().wait();
        wait(*in_, out_->record());
      },
      "'offload' on stream 'd2h' writes", "'fetch' on stream 'h2d' reads");
}

// 3. The copy stream is made to wait for itself.
TEST_P(PlantedRace, TheCopyStreamWaitsForItself) {
  const std::uintptr_t a = allocate(compute());
  compare(
      [&](bool right) {
        run(compute(), "make", a, Mode::kWrite);
        device_->set_current_stream(right ? compute() : *out_);
        wait(*out_, device_->current_stream().record());
        fetch(*out_, a);
        device_->set_current_stream(*first_);
        wait(compute(), out_->record());
      },
      "'offload' on stream 'd2h' reads", "'make' on stream 'compute' writes");
}

// 4. A reload starts before its own offload has finished.
TEST_P(PlantedRace, ReloadBeforeItsOwnOffload) {
  const std::uintptr_t a = allocate(compute());
  const std::uintptr_t b = allocate(compute());
  compare(
      [&](bool right) {
        run(compute(), "make", a, Mode::kWrite);
        wait(*out_, compute().record());
        fetch(*out_, a);
        wait(*in_, right ? out_->record() : compute().record());
        send(*in_, b);
        wait(compute(), in_->record());
        wait(compute(), out_->record());
      },
      "'fetch' on stream 'h2d' reads", "'offload' on stream 'd2h' writes");
}

// 5. A source is made contiguous on the copy stream before compute has written it.
TEST_P(PlantedRace, MadeContiguousOnTheCopyStream) {
  const std::uintptr_t a = allocate(compute());
  const std::uintptr_t packed = allocate(compute());
  wait(*out_, compute().record());
  compare(
      [&](bool right) {
        run(compute(), "make", a, Mode::kWrite);
        if (right) wait(*out_, compute().record());
        const std::array<Access, 2> accesses{Access{a, kBytes, Mode::kRead},
                                             Access{packed, kBytes, Mode::kWrite}};
        out_->launch(op("contiguous", 1, accesses), [](void*) {});
        fetch(*out_, packed);
        wait(compute(), out_->record());
      },
      "'contiguous' on stream 'd2h' reads", "'make' on stream 'compute' writes");
}

// 6. The compute stream is remembered; the job runs on another one.
TEST_P(PlantedRace, TheComputeStreamIsRemembered) {
  Stream& remembered = compute();
  Stream& other = device_->create_stream("other");
  const std::uintptr_t a = allocate(other);
  compare(
      [&](bool right) {
        device_->set_current_stream(other);
        run(compute(), "make", a, Mode::kWrite);
        wait(*out_, right ? compute().record() : remembered.record());
        fetch(*out_, a);
        wait(compute(), out_->record());
        device_->set_current_stream(remembered);
      },
      "'offload' on stream 'd2h' reads", "'make' on stream 'other' writes");
}

// 7. A pinned temporary is written again while the copy from it still runs.
TEST_P(PlantedRace, PinnedTemporaryUsedAgainWhileItIsCopied) {
  const std::uintptr_t a = allocate(*in_);
  const Access temporary{reinterpret_cast<std::uintptr_t>(host_), kBytes, Mode::kWrite};
  compare(
      [&](bool right) {
        device_->touch_host(temporary);
        send(*in_, a);
        if (right) in_->record().wait();
        device_->touch_host(temporary);
        in_->record().wait();
      },
      "'host access' on stream 'host' writes", "'fetch' on stream 'h2d' reads");
}

// 8. Who waits is given the event of another block: layer k for group k.
TEST_P(PlantedRace, WaitsForTheEventOfAnotherBlock) {
  const std::uintptr_t a = allocate(compute());
  const std::uintptr_t b = allocate(compute());
  wait(*in_, compute().record());
  compare(
      [&](bool right) {
        send(*in_, a);
        const Event first = in_->record();
        send(*in_, b, kBytes);
        const Event second = in_->record();
        wait(compute(), right ? second : first);
        run(compute(), "use", b, Mode::kRead);
        wait(*in_, compute().record());
      },
      "'use' on stream 'compute' reads", "'fetch' on stream 'h2d' writes");
}

// 9. Last step's write and this step's read of one block.
TEST_P(PlantedRace, LoadsOverlapWithStoresOfTheSameBlock) {
  const std::uintptr_t a = allocate(compute());
  const std::uintptr_t b = allocate(compute());
  wait(*out_, compute().record());
  wait(*in_, compute().record());
  compare(
      [&](bool right) {
        for (int step = 0; step < 2; ++step) {
          if (right) wait(*in_, out_->record());
          send(*in_, b);
          if (right) wait(*out_, in_->record());
          fetch(*out_, a);
        }
        device_->synchronize();
      },
      "'offload' on stream 'd2h' writes", "'fetch' on stream 'h2d' reads");
}

TEST_P(PlantedRace, UsedAfterItWasFreed) {
  compare(
      [&](bool right) {
        const std::uintptr_t a = allocate(compute());
        run(compute(), "make", a, Mode::kWrite);
        if (right) run(compute(), "use", a, Mode::kRead);
        device_->memory().free(a, Fence(compute().record()));
        if (!right) run(compute(), "use", a, Mode::kRead);
      },
      "'use' on stream 'compute' touches", "used after it was freed");
}

TEST_P(PlantedRace, ASignalThatIsSubmittedTooEarlyOrdersNothing) {
  const std::uintptr_t a = allocate(compute());
  wait(*in_, compute().record());
  compare(
      [&](bool right) {
        std::uint64_t first = 0;
        Timeline& timeline = device_->acquire_timeline(first);
        wait(compute(), timeline.at(first));
        run(compute(), "use", a, Mode::kRead);
        if (!right) in_->signal(timeline, first);
        send(*in_, a);
        if (right) in_->signal(timeline, first);
        device_->synchronize();
        device_->release_timeline(timeline);
      },
      "'use' on stream 'compute' reads", "'fetch' on stream 'h2d' writes");
}

TEST_P(PlantedRace, WhatACallbackSubmitsComesAfterItsWorkOnly) {
  const std::uintptr_t a = allocate(compute());
  wait(*out_, compute().record());
  compare(
      [&](bool right) {
        run(compute(), "make", a, Mode::kWrite);
        Stream& before = right ? compute() : *out_;
        before.call_back([&](const absl::Status&) { fetch(*out_, a); });
        before.synchronize();
        wait(compute(), out_->record());
      },
      "'offload' on stream 'd2h' reads", "'make' on stream 'compute' writes");
}

std::vector<DeviceKind> kinds() {
  std::vector<DeviceKind> result{{"time", {Order::Kind::kTime}},
                                 {"eager", {Order::Kind::kEager}},
                                 {"dry", {}, true},
                                 {"free", {}, false, true}};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    result.push_back({"fuzz" + std::to_string(seed), {Order::Kind::kFuzz, seed}});
  }
  return result;
}

INSTANTIATE_TEST_SUITE_P(Orders, PlantedRace, ::testing::ValuesIn(kinds()),
                         [](const auto& kind) { return kind.param.name; });

TEST(CheckDevice, ThrowsAtTheSubmissionThatConflicts) {
  const auto device = make_check_device(test::make_device({"time", {}}));
  Stream& other = device->create_stream("other");
  const auto a =
      device->memory().allocate(kBytes, Purpose::kActivations, device->current_stream());
  const std::array<Access, 1> accesses{Access{a, kBytes, Mode::kWrite}};
  device->current_stream().launch(op("one", 1, accesses), [](void*) {});
  try {
    other.launch(op("two", 1, accesses), [](void*) {});
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'one' on stream 'compute'"),
                                    HasSubstr("'two' on stream 'other'")));
  }
  EXPECT_EQ(device->order().violations, 1U);
  EXPECT_EQ(device->order().accesses, 2U);
}

TEST(CheckDevice, WorkThatFailedHasEndedForWhoeverSynchronized) {
  for (const bool whole_device : {true, false}) {
    const auto device = make_check_device(test::make_device({"time", {}}));
    Stream& out = device->create_stream("out");
    Stream& in = device->create_stream("in");
    std::byte* host = device->host_memory().pin(kBytes);
    const auto a =
        device->memory().allocate(kBytes, Purpose::kActivations, device->current_stream());
    out.copy({"out", Direction::kDeviceToHost, a, host, kBytes});
    out.launch(op("explode", 1), [](void*) { throw std::runtime_error("bang"); });
    if (whole_device) {
      EXPECT_THROW(device->synchronize(), Error);
    } else {
      EXPECT_THROW(out.synchronize(), Error);
    }
    EXPECT_NO_THROW(in.copy({"in", Direction::kHostToDevice, a, host, kBytes}));
    device->synchronize();
    device->host_memory().unpin(host, kBytes);
  }
}

TEST(CheckDevice, ChangesNeitherTheClockNorTheMemoryFigures) {
  const auto run = [](Device& device) {
    Stream& compute = device.current_stream();
    Stream& out = device.create_stream("out");
    std::byte* host = device.host_memory().pin(kBytes);
    for (int i = 0; i < 20; ++i) {
      const auto a = device.memory().allocate(kBytes, Purpose::kActivations, compute);
      const std::array<Access, 1> accesses{Access{a, kBytes, Mode::kWrite}};
      compute.launch(op("make", 3, accesses), [](void*) {});
      out.wait(compute.record(), kTag);
      out.copy({"out", Direction::kDeviceToHost, a, host, kBytes});
      device.memory().free(a, Fence(out.record()));
    }
    device.synchronize();
    device.host_memory().unpin(host, kBytes);
    const MemoryFigures figures = device.memory().figures();
    return std::make_tuple(device.now(), figures.peak_bytes, figures.reserved_bytes);
  };
  const auto plain = test::make_device({"time", {}});
  const auto checked = make_check_device(test::make_device({"time", {}}));
  EXPECT_EQ(run(*plain), run(*checked));
}

}  // namespace
}  // namespace ebb::device
