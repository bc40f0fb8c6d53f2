// What every Device must do. The test of each implementation includes this, and adds
//   INSTANTIATE_TEST_SUITE_P(Sim, DeviceContract, ::testing::Values(...));
// with DeviceMakers. Nothing here depends on how long anything takes.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/device/device.h"
#include "tests/support/devices.h"
#include "tests/support/errors.h"

namespace ebb::test {

struct DeviceMaker {
  std::string name;
  // Of at least 1 MiB; dry if it likes.
  std::function<std::unique_ptr<device::Device>()> make;
};

inline std::string name_of(const ::testing::TestParamInfo<DeviceMaker>& info) {
  return info.param.name;
}

class DeviceContract : public ::testing::TestWithParam<DeviceMaker> {
 protected:
  using Access = device::Access;
  using CopyInfo = device::CopyInfo;
  using Stream = device::Stream;
  static constexpr std::size_t kBytes = 4096;
  static constexpr device::WaitTag kTag{device::StallCause::kHost, "test"};

  void SetUp() override {
    device_ = GetParam().make();
    dry_ = device_->capability().dry;
    host_ = device_->host_memory().pin(kBytes);
  }
  void TearDown() override {
    device_->synchronize();
    device_->host_memory().unpin(host_, kBytes);
  }

  Stream& compute() { return device_->current_stream(); }

  std::uintptr_t allocate(std::size_t bytes = kBytes) {
    return device_->memory().allocate(bytes, Purpose::kActivations, compute());
  }

  void fill(Stream& stream, std::uintptr_t address, int value) {
    const std::vector<Access> accesses{{address, kBytes, Access::Mode::kWrite}};
    stream.launch(op("fill", 1, accesses), [address, value](void*) {
      std::memset(reinterpret_cast<void*>(address), value, kBytes);
    });
  }
  // Adds one to every byte.
  void raise(Stream& stream, std::uintptr_t address) {
    const std::vector<Access> accesses{{address, kBytes, Access::Mode::kReadWrite}};
    stream.launch(op("raise", 1, accesses), [address](void*) {
      auto* bytes = reinterpret_cast<unsigned char*>(address);
      std::for_each(bytes, bytes + kBytes, [](unsigned char& byte) { ++byte; });
    });
  }
  void fetch(Stream& stream, std::uintptr_t address) {
    stream.copy({"fetch", CopyInfo::Direction::kDeviceToHost, address, host_, kBytes});
  }
  void send(Stream& stream, std::uintptr_t address) {
    stream.copy({"send", CopyInfo::Direction::kHostToDevice, address, host_, kBytes});
  }
  void expect_host(int value) {
    if (dry_) return;
    EXPECT_EQ(std::count(host_, host_ + kBytes, static_cast<std::byte>(value)), kBytes);
  }
  std::unique_ptr<device::Device> device_;
  bool dry_ = false;
  std::byte* host_ = nullptr;
};

TEST_P(DeviceContract, RunsTheWorkOfAStreamInOrder) {
  const std::uintptr_t address = allocate();
  fill(compute(), address, 1);
  raise(compute(), address);
  raise(compute(), address);
  fetch(compute(), address);
  compute().synchronize();
  expect_host(3);
  device_->memory().free(address, {});
}

TEST_P(DeviceContract, OrdersStreamsByEvents) {
  Stream& out = device_->create_stream("out");
  const std::uintptr_t address = allocate();
  for (int value = 1; value <= 5; ++value) {
    fill(compute(), address, value);
    out.wait(compute().record(), kTag);
    fetch(out, address);
    compute().wait(out.record(), kTag);
    out.record().wait();
    expect_host(value);
  }
  device_->memory().free(address, Fence(out.record()));
  device_->destroy_stream(out);
}

TEST_P(DeviceContract, WaitsForWhatTheEventMeantWhenItWasRecorded) {
  Stream& out = device_->create_stream("out");
  const std::uintptr_t address = allocate();
  fill(compute(), address, 1);
  const Event first = compute().record();
  out.wait(first, kTag);
  fetch(out, address);
  compute().wait(out.record(), kTag);
  fill(compute(), address, 2);
  out.synchronize();
  expect_host(1);
  compute().synchronize();
  EXPECT_TRUE(first.done());
  device_->memory().free(address, {});
  device_->destroy_stream(out);
}

TEST_P(DeviceContract, WaitsForASignalThatIsSubmittedLater) {
  Stream& in = device_->create_stream("in");
  std::uint64_t first = 0;
  device::Timeline& timeline = device_->acquire_timeline(first);
  const std::uintptr_t address = allocate();
  fill(compute(), address, 7);
  const Event filled = compute().record();
  compute().wait(timeline.at(first), kTag);
  raise(compute(), address);
  fetch(compute(), address);
  EXPECT_FALSE(compute().record().done());
  in.wait(filled, kTag);
  raise(in, address);
  in.signal(timeline, first);
  compute().synchronize();
  expect_host(9);
  EXPECT_TRUE(timeline.at(first).done());
  device_->memory().free(address, {});
  device_->release_timeline(timeline);
  device_->destroy_stream(in);
}

TEST_P(DeviceContract, GoesOnCountingOnATimelineThatIsUsedAgain) {
  std::uint64_t first = 0;
  device::Timeline& timeline = device_->acquire_timeline(first);
  compute().signal(timeline, first + 4);
  timeline.at(first + 4).wait();
  device_->release_timeline(timeline);
  std::uint64_t again = 0;
  device::Timeline& same = device_->acquire_timeline(again);
  EXPECT_EQ(&same, &timeline);
  EXPECT_EQ(again, first + 5);
  EXPECT_FALSE(same.at(again).done());
  device_->release_timeline(same);
}

TEST_P(DeviceContract, CallsBackWhenTheWorkBeforeHasEnded) {
  const std::uintptr_t address = allocate();
  fill(compute(), address, 4);
  fetch(compute(), address);
  const Event fetched = compute().record();
  bool called = false;
  compute().call_back([&](const absl::Status& status) {
    called = true;
    EXPECT_TRUE(status.ok());
    EXPECT_TRUE(fetched.done());
    expect_host(4);
  });
  compute().synchronize();
  EXPECT_TRUE(called);
  device_->memory().free(address, {});
}

TEST_P(DeviceContract, LetsACallbackSubmitTheNextChunk) {
  Stream& out = device_->create_stream("out");
  std::uint64_t first = 0;
  device::Timeline& timeline = device_->acquire_timeline(first);
  const std::uintptr_t address = allocate();
  fill(compute(), address, 8);
  out.wait(compute().record(), kTag);
  constexpr std::size_t kChunk = kBytes / 8;
  std::size_t chunk = 0;
  std::function<void()> next = [&] {
    const std::size_t at = chunk++ * kChunk;
    out.copy(
        {"chunk", CopyInfo::Direction::kDeviceToHost, address + at, host_ + at, kChunk});
    if (chunk == 8) {
      out.signal(timeline, first);
    } else {
      out.call_back([&](const absl::Status&) { next(); });
    }
  };
  next();
  compute().wait(timeline.at(first), kTag);
  raise(compute(), address);
  timeline.at(first).wait();
  EXPECT_EQ(chunk, 8U);
  expect_host(8);
  compute().synchronize();
  device_->memory().free(address, {});
  device_->release_timeline(timeline);
  device_->destroy_stream(out);
}

TEST_P(DeviceContract, KeepsTheFirstFailureOnItsStreamAndThrowsItOnce) {
  if (dry_) return;  // Nothing runs, so nothing fails.
  bool ran = false;
  compute().launch(op("explode", 1),
                   [](void*) { throw Error(absl::StatusCode::kDataLoss, "it went bang"); });
  compute().launch(op("behind", 1), [&](void*) { ran = true; });
  compute().record().wait();  // Events of failed work end.
  EXPECT_THAT([&] { compute().synchronize(); },
              fails_with(absl::StatusCode::kDataLoss, "it went bang"));
  EXPECT_FALSE(ran);
  compute().launch(op("after", 1), [&](void*) { ran = true; });
  EXPECT_NO_THROW(compute().synchronize());
  EXPECT_TRUE(ran);
}

TEST_P(DeviceContract, NamesTheOpAndTheStreamThatFailed) {
  if (dry_) return;  // Nothing runs, so nothing fails.
  Stream& other = device_->create_stream("the-other");
  other.launch(op("explode", 1), [](void*) { throw std::runtime_error("bang"); });
  EXPECT_THAT(
      [&] { other.synchronize(); },
      fails_with(absl::StatusCode::kInternal, "op 'explode' on stream 'the-other'"));
  device_->destroy_stream(other);
}

TEST_P(DeviceContract, CarriesAFailureToWhoeverWaits) {
  if (dry_) return;  // Nothing runs, so nothing fails.
  Stream& other = device_->create_stream("other");
  Stream& third = device_->create_stream("third");
  std::uint64_t first = 0;
  device::Timeline& timeline = device_->acquire_timeline(first);
  bool ran = false;
  bool before = false;
  absl::Status told;
  third.launch(op("before", 1), [&](void*) { before = true; });
  compute().launch(op("explode", 1), [](void*) { throw std::runtime_error("bang"); });
  other.wait(compute().record(), kTag);
  other.signal(timeline, first);
  third.wait(timeline.at(first), kTag);
  third.launch(op("behind", 1), [&](void*) { ran = true; });
  third.call_back([&](const absl::Status& status) { told = status; });
  EXPECT_THAT([&] { third.synchronize(); },
              fails_with(absl::StatusCode::kInternal, "bang"));
  EXPECT_TRUE(before);
  EXPECT_FALSE(ran);
  EXPECT_FALSE(told.ok());
  EXPECT_THROW(device_->synchronize(), Error);
  EXPECT_NO_THROW(device_->synchronize());
  device_->release_timeline(timeline);
  device_->destroy_stream(other);
  device_->destroy_stream(third);
}

TEST_P(DeviceContract, CarriesAFailureToWhoeverWaitsAfterTheHostHasSeenItsEnd) {
  if (dry_) return;  // Nothing runs, so nothing fails.
  Stream& other = device_->create_stream("other");
  bool ran = false;
  compute().launch(op("explode", 1), [](void*) { throw std::runtime_error("bang"); });
  const Event exploded = compute().record();
  exploded.wait();
  other.wait(exploded, kTag);  // For the order it is not needed.
  other.launch(op("behind", 1), [&](void*) { ran = true; });
  EXPECT_THAT([&] { other.synchronize(); },
              fails_with(absl::StatusCode::kInternal, "bang"));
  EXPECT_FALSE(ran);
  EXPECT_THROW(device_->synchronize(), Error);
  device_->destroy_stream(other);
}

TEST_P(DeviceContract, AStreamKeepsItsOwnFailureWhereAnotherArrives) {
  if (dry_) return;  // Nothing runs, so nothing fails.
  Stream& other = device_->create_stream("other");
  compute().launch(op("first", 1), [](void*) { throw std::runtime_error("one"); });
  other.launch(op("second", 1), [](void*) { throw std::runtime_error("two"); });
  const Event second = other.record();
  compute().wait(second, kTag);
  EXPECT_THAT([&] { compute().synchronize(); },
              fails_with(absl::StatusCode::kInternal, "op 'first'", "one"));
  EXPECT_THAT([&] { other.synchronize(); },
              fails_with(absl::StatusCode::kInternal, "op 'second'", "two"));
  EXPECT_NO_THROW(device_->synchronize());
  device_->destroy_stream(other);
}

TEST_P(DeviceContract, EndsAllThatIsBehindAFailure) {
  if (dry_) return;  // Nothing runs, so nothing fails.
  Stream& out = device_->create_stream("out");
  std::uint64_t first = 0;
  device::Timeline& timeline = device_->acquire_timeline(first);
  const std::uintptr_t address = allocate();
  std::fill_n(host_, kBytes, std::byte{9});
  compute().launch(op("explode", 1), [](void*) { throw std::runtime_error("bang"); });
  fill(compute(), address, 1);
  const Event filled = compute().record();
  out.wait(filled, kTag);
  fetch(out, address);
  out.signal(timeline, first);
  bool called = false;
  out.call_back([&](const absl::Status& status) {
    called = true;
    EXPECT_FALSE(status.ok());
  });
  device_->memory().free(address, Fence(out.record()));
  timeline.at(first).wait();
  out.record().wait();
  EXPECT_TRUE(filled.done());
  EXPECT_TRUE(timeline.at(first).done());
  EXPECT_TRUE(called);
  expect_host(9);  // The copy was not run.
  EXPECT_THROW(device_->synchronize(), Error);
  device_->release_timeline(timeline);
  device_->destroy_stream(out);
}

TEST_P(DeviceContract, WorksAgainWhenItsFailureWasThrown) {
  if (dry_) return;  // Nothing runs, so nothing fails.
  Stream& out = device_->create_stream("out");
  const std::uintptr_t address = allocate();
  for (int round = 1; round <= 3; ++round) {
    compute().launch(op("explode", 1), [](void*) { throw std::runtime_error("bang"); });
    out.wait(compute().record(), kTag);
    EXPECT_THROW(device_->synchronize(), Error);
    fill(compute(), address, round);
    out.wait(compute().record(), kTag);
    fetch(out, address);
    compute().wait(out.record(), kTag);
    EXPECT_NO_THROW(device_->synchronize());
    expect_host(round);
  }
  device_->memory().free(address, {});
  device_->destroy_stream(out);
}

TEST_P(DeviceContract, ATimelineForgetsTheFailureOfItsLastOwner) {
  if (dry_) return;  // Nothing runs, so nothing fails.
  Stream& gone = device_->create_stream("gone");
  std::uint64_t first = 0;
  device::Timeline& timeline = device_->acquire_timeline(first);
  gone.launch(op("explode", 1), [](void*) { throw std::runtime_error("bang"); });
  gone.signal(timeline, first);
  EXPECT_THROW(gone.synchronize(), Error);
  device_->release_timeline(timeline);
  device::Timeline& again = device_->acquire_timeline(first);
  ASSERT_EQ(&again, &timeline);
  gone.signal(again, first);
  compute().wait(again.at(first), kTag);
  EXPECT_NO_THROW(compute().synchronize());
  device_->release_timeline(again);
  device_->destroy_stream(gone);
}

TEST_P(DeviceContract, CanBeDestroyedWithAFailureThatNobodyAskedFor) {
  if (dry_) return;  // Nothing runs, so nothing fails.
  const std::unique_ptr<device::Device> other = GetParam().make();
  bool held = true;
  struct Ends {
    explicit Ends(bool& flag) : held(flag) {}
    ~Ends() { held = false; }
    bool& held;
  };
  other->current_stream().launch(
      op("explode", 1),
      [ends = std::make_unique<Ends>(held)](void*) { throw std::runtime_error("bang"); });
  other->current_stream().record().wait();
  EXPECT_FALSE(held) << "the op still holds what it was given";
}

TEST_P(DeviceContract, RefusesMoreMemoryThanThereIsAndSaysWhatUsesIt) {
  const std::uintptr_t kept =
      device_->memory().allocate(kBytes, Purpose::kParameters, compute());
  constexpr std::size_t kTooMuch = std::size_t{1} << 55;
  EXPECT_FALSE(device_->memory().try_allocate(kTooMuch, Purpose::kWorkspace, compute()));
  EXPECT_THAT(
      [&] { (void)device_->memory().allocate(kTooMuch, Purpose::kWorkspace, compute()); },
      fails_with(absl::StatusCode::kResourceExhausted, "parameters 4096"));
  device_->memory().free(kept, {});
}

TEST_P(DeviceContract, HandsMemoryOnInStreamOrder) {
  Stream& out = device_->create_stream("out");
  for (int round = 0; round < 50; ++round) {
    const std::uintptr_t address = allocate();
    fill(compute(), address, round);
    out.wait(compute().record(), kTag);
    if (round > 0) out.record().wait();
    fetch(out, address);
    device_->memory().free(address, Fence(out.record()));
    const std::uintptr_t next = allocate();
    fill(compute(), next, 200);  // Perhaps into the same bytes: after the copy, then.
    device_->memory().free(next, Fence(compute().record()));
    out.record().wait();
    expect_host(round);
  }
  EXPECT_EQ(device_->memory().figures().lent.total(), 0U);
  device_->destroy_stream(out);
}

TEST_P(DeviceContract, UsesTheSlotsOfStreamsAgain) {
  Stream* before = &device_->create_stream("a");
  const Event event = before->launch(op("work", 1), [](void*) {});
  device_->destroy_stream(*before);
  Stream& after = device_->create_stream("b");
  EXPECT_EQ(&after, before);
  EXPECT_TRUE(event.done());
  after.launch(op("work", 1), [](void*) {});
  device_->destroy_stream(after);
}

TEST_P(DeviceContract, LooksUpTheCurrentStreamAtEachCall) {
  Stream& first = device_->current_stream();
  Stream& other = device_->create_stream("other");
  device_->set_current_stream(other);
  EXPECT_EQ(&device_->current_stream(), &other);
  device_->set_current_stream(first);
  device_->destroy_stream(other);
}

TEST_P(DeviceContract, TellsTheObserverOfEveryOpButProbes) {
  Recorder recorder;
  device_->set_observer(&recorder);
  const std::uintptr_t address = allocate();
  fill(compute(), address, 1);
  device::OpInfo probe = op("probe", 1);
  probe.probe = true;
  compute().launch(probe, [](void*) {});
  fetch(compute(), address);
  compute().synchronize();
  device_->set_observer(nullptr);
  ASSERT_EQ(recorder.records.size(), 2U);
  EXPECT_STREQ(recorder.records[0].name, "fill");
  EXPECT_STREQ(recorder.records[1].name, "fetch");
  EXPECT_EQ(recorder.records[1].bytes, kBytes);
  EXPECT_TRUE(recorder.records[0].end_event.done());
  EXPECT_EQ(recorder.records[0].end_event.source(), compute().record().source());
  EXPECT_EQ(recorder.records[1].live_activation_bytes, kBytes);
  device_->memory().free(address, {});
}

}  // namespace ebb::test
