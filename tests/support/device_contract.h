// What every Device must do. The test of each implementation includes this, and adds
//   INSTANTIATE_TEST_SUITE_P(Sim, DeviceContract, ::testing::Values(...));
// with DeviceMakers. Nothing here depends on how long anything takes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/device/device.h"
#include "tests/support/device_contract_failures.h"
#include "tests/support/device_contract_fixture.h"
#include "tests/support/devices.h"
#include "tests/support/errors.h"

namespace ebb::test {

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
