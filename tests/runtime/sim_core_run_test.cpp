// Failures, deadlocks and undeclared accesses of the simulated device.

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

#include "allocator/error.h"
#include "runtime/device/sim/profile.h"
#include "tests/support/devices.h"
#include "tests/support/errors.h"

namespace ebb::device {
namespace {

using test::DeviceKind;
using test::fails_with;
using test::op;

constexpr WaitTag kTag{StallCause::kHost, "a-test"};

class Trouble : public ::testing::TestWithParam<DeviceKind> {
 protected:
  std::unique_ptr<Device> device_ = test::make_device(GetParam());
};

TEST_P(Trouble, ADeadlockIsAnErrorThatNamesWhoWaits) {
  std::uint64_t first = 0;
  Timeline& timeline = device_->acquire_timeline(first);
  Stream& stream = device_->current_stream();
  stream.wait(timeline.at(first), kTag);
  bool ran = false;
  const Event event = stream.launch(op("never", 1), [&](void*) { ran = true; });
  event.wait();  // Comes back: events always end.
  EXPECT_TRUE(event.done());
  EXPECT_FALSE(ran);
  EXPECT_THAT([&] { stream.synchronize(); },
              fails_with(absl::StatusCode::kFailedPrecondition, "nothing", "submitted"));
  stream.launch(op("after", 1), [&](void*) { ran = true; });
  EXPECT_NO_THROW(device_->synchronize());
  EXPECT_EQ(ran, !GetParam().dry);
}

TEST_P(Trouble, WaitingForASignalThatNobodySubmitsComesBackAndIsAnError) {
  std::uint64_t first = 0;
  Timeline& timeline = device_->acquire_timeline(first);
  timeline.at(first).wait();
  EXPECT_TRUE(timeline.at(first).done());
  EXPECT_THAT([&] { device_->synchronize(); },
              fails_with(absl::StatusCode::kFailedPrecondition, "nothing", "submitted"));
  EXPECT_NO_THROW(device_->synchronize());
}

TEST_P(Trouble, AFailureInACallbackStaysOnItsStream) {
  Stream& stream = device_->create_stream("calls");
  stream.call_back([](const absl::Status&) { throw std::runtime_error("bang"); });
  EXPECT_THAT(
      [&] { stream.synchronize(); },
      fails_with(absl::StatusCode::kInternal, "callback on stream 'calls'", "bang"));
}

TEST_P(Trouble, ACallbackThatThrowsAnythingFailsItsStream) {
  Stream& stream = device_->create_stream("calls");
  stream.call_back([](const absl::Status&) { throw 7; });
  EXPECT_THAT([&] { stream.synchronize(); },
              fails_with(absl::StatusCode::kInternal, "callback on stream 'calls'"));
}

TEST_P(Trouble, AnOpThatThrowsAnythingFailsItsStream) {
  if (GetParam().dry) return;  // Nothing runs, so nothing fails.
  device_->current_stream().launch(op("odd", 1), [](void*) { throw 7; });
  EXPECT_THAT([&] { device_->synchronize(); },
              fails_with(absl::StatusCode::kInternal, "'odd'", "unknown"));
}

TEST_P(Trouble, AnObserverThatThrowsIsReportedByTheDevice) {
  class Thrower final : public OpObserver {
    void on_op(const OpRecord&) override { throw std::runtime_error("no room to note it"); }
  } thrower;
  device_->set_observer(&thrower);
  Stream& stream = device_->current_stream();
  const Event event = stream.launch(op("seen", 1), [](void*) {});
  event.wait();
  EXPECT_THAT([&] { device_->synchronize(); },
              fails_with(absl::StatusCode::kInternal, "observer of op 'seen'", "no room"));
  device_->set_observer(nullptr);
}

TEST_P(Trouble, AFailureOfADestroyedStreamIsThrownByTheDevice) {
  if (GetParam().dry) return;  // Nothing runs, so nothing fails.
  Stream& stream = device_->create_stream("gone");
  stream.launch(op("explode", 1), [](void*) { throw std::runtime_error("bang"); });
  device_->destroy_stream(stream);
  EXPECT_THAT([&] { device_->synchronize(); },
              fails_with(absl::StatusCode::kInternal, "'explode'", "'gone'"));
}

TEST_P(Trouble, ATimelineCannotBeToldToGoBack) {
  std::uint64_t first = 0;
  Timeline& timeline = device_->acquire_timeline(first);
  device_->current_stream().signal(timeline, first + 1);
  EXPECT_THROW(device_->current_stream().signal(timeline, first + 1), Error);
}

INSTANTIATE_TEST_SUITE_P(Orders, Trouble,
                         ::testing::Values(DeviceKind{"time", {Order::Kind::kTime}},
                                           DeviceKind{"eager", {Order::Kind::kEager}},
                                           DeviceKind{"fuzz", {Order::Kind::kFuzz, 5}},
                                           DeviceKind{"dry", {}, true},
                                           DeviceKind{"free", {}, false, true}),
                         [](const auto& kind) { return kind.param.name; });

// What SimOptions::fault says.
class ToldToFail : public ::testing::TestWithParam<DeviceKind> {
 protected:
  ToldToFail() {
    SimOptions options;
    options.profile = GetParam().free ? load_profile("free") : test::slow_profile();
    options.order = GetParam().order;
    options.dry = GetParam().dry;
    options.limit_bytes = std::size_t{1} << 20;
    options.fault = [this](const char* name) {
      return name == failing_ ? absl::DataLossError("as told") : absl::Status();
    };
    device_ = make_sim_device(options, test::no_kernels());
  }

  std::string failing_;
  std::unique_ptr<Device> device_;
};

TEST_P(ToldToFail, AnOpOrACopyFailsAndTheFailureTravels) {
  Stream& compute = device_->current_stream();
  Stream& out = device_->create_stream("out");
  Stream& last = device_->create_stream("last");
  std::byte* host = device_->host_memory().pin(512);
  const std::uintptr_t address =
      device_->memory().allocate(512, Purpose::kActivations, compute);
  std::uint64_t next = 0;
  Timeline& timeline = device_->acquire_timeline(next);
  for (const auto& [name, stream] :
       {std::pair{"make", "compute"}, {"send", "out"}, {"use", "last"}, {"", ""}}) {
    failing_ = name;
    absl::Status told;
    compute.launch(op("make", 1), [](void*) {});
    out.wait(compute.record(), kTag);
    out.copy({"send", CopyInfo::Direction::kDeviceToHost, address, host, 512});
    out.signal(timeline, next);
    last.wait(timeline.at(next++), kTag);
    last.launch(op("use", 1), [](void*) {});
    last.call_back([&](const absl::Status& status) { told = status; });
    last.record().wait();
    EXPECT_EQ(told.ok(), failing_.empty()) << name;
    if (failing_.empty()) {
      EXPECT_NO_THROW(device_->synchronize());
    } else {
      const std::string op_and_stream =
          absl::StrCat("op '", name, "' on stream '", stream, "'");
      EXPECT_THAT([&] { device_->synchronize(); },
                  fails_with(absl::StatusCode::kDataLoss, op_and_stream, "as told"));
    }
  }
  device_->memory().free(address, {});
  device_->host_memory().unpin(host, 512);
}

INSTANTIATE_TEST_SUITE_P(Orders, ToldToFail,
                         ::testing::Values(DeviceKind{"time", {Order::Kind::kTime}},
                                           DeviceKind{"eager", {Order::Kind::kEager}},
                                           DeviceKind{"fuzz", {Order::Kind::kFuzz, 5}},
                                           DeviceKind{"dry", {}, true},
                                           DeviceKind{"free", {}, false, true}),
                         [](const auto& kind) { return kind.param.name; });

class Guarded : public ::testing::Test {
 protected:
  static constexpr std::size_t kPage = 4096;

  Guarded() {
    SimOptions options;
    options.profile = test::slow_profile();
    options.guard_undeclared = true;
    device_ = make_sim_device(options, test::no_kernels());
    block_ = device_->memory().allocate(4 * kPage, Purpose::kActivations,
                                        device_->current_stream());
  }

  void launch(std::vector<Access> accesses, Body body) {
    device_->current_stream().launch(op("sneaky", 1, accesses), std::move(body));
  }
  char* at(std::size_t page) { return reinterpret_cast<char*>(block_) + page * kPage; }

  std::unique_ptr<Device> device_;
  std::uintptr_t block_ = 0;
};

TEST_F(Guarded, AnOpThatTouchesWhatItDidNotDeclareIsNamed) {
  launch({{block_ + kPage, kPage, Access::Mode::kWrite}}, [&](void*) { *at(1) = *at(3); });
  EXPECT_THAT([&] { device_->synchronize(); },
              fails_with(absl::StatusCode::kInternal, "op 'sneaky'", "did not declare"));
}

TEST_F(Guarded, AnOpThatTouchesWhatItDeclaredIsNot) {
  launch({{block_ + kPage, kPage, Access::Mode::kWrite},
          {block_ + 3 * kPage, 100, Access::Mode::kRead}},
         [&](void*) { *at(1) = *at(3); });
  EXPECT_NO_THROW(device_->synchronize());
  *at(0) = 1;  // And afterwards all is open.
  EXPECT_EQ(*at(0), 1);
}

TEST_F(Guarded, AFailureInTheBodyOpensThePagesAgain) {
  launch({}, [](void*) { throw std::runtime_error("bang"); });
  EXPECT_THAT([&] { device_->synchronize(); },
              fails_with(absl::StatusCode::kInternal, "sneaky", "bang"));
  *at(2) = 1;
  EXPECT_EQ(*at(2), 1);
}

}  // namespace
}  // namespace ebb::device
