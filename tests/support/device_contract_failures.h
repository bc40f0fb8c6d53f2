// What every Device must do with work that fails: a part of device_contract.h.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>

#include <gtest/gtest.h>

#include "allocator/error.h"
#include "tests/support/device_contract_fixture.h"
#include "tests/support/errors.h"

namespace ebb::test {

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

}  // namespace ebb::test
