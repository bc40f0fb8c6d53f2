#include "runtime/device/sim/sim_device.h"

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/support/device_contract.h"

namespace ebb::device {
namespace {

using test::DeviceContract;
using test::DeviceKind;
using test::DeviceMaker;

DeviceMaker maker(const DeviceKind& kind) {
  return {kind.name, [kind] { return test::make_device(kind); }};
}

INSTANTIATE_TEST_SUITE_P(
    Sim, DeviceContract,
    ::testing::Values(maker({"time", {Order::Kind::kTime}}),
                      maker({"eager", {Order::Kind::kEager}}),
                      maker({"fuzz1", {Order::Kind::kFuzz, 1}}),
                      maker({"fuzz2", {Order::Kind::kFuzz, 2}}),
                      maker({"fuzz3", {Order::Kind::kFuzz, 3}}), maker({"dry", {}, true}),
                      maker({"free", {}, false, true}),
                      maker({"free_fuzz", {Order::Kind::kFuzz, 4}, false, true}),
                      maker({"free_dry", {}, true, true})),
    test::name_of);

TEST(SimDevice, RefusesALimitAboveTheCapacity) {
  SimOptions options;
  options.profile = load_profile("t4-pcie3");
  options.limit_bytes = std::size_t{1} << 50;
  try {
    (void)make_sim_device(options, test::no_kernels());
    FAIL() << "took it";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("t4-pcie3"), std::string::npos);
  }
}

TEST(SimDevice, AChildOfForkMovesNothingAndCanDestroyIt) {
  auto device = test::make_device({"time", {Order::Kind::kTime}});
  bool ran = false;
  OpInfo op;
  op.name = "of the parent";
  op.work.flops = 1;
  device->current_stream().launch(op, [&ran](void*) { ran = true; });
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    bool said = false;
    try {
      device->synchronize();
    } catch (const Error& error) {
      said = error.code() == absl::StatusCode::kFailedPrecondition;
    }
    device.reset();
    _exit(said && !ran ? 7 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
  device->synchronize();
  EXPECT_TRUE(ran);
}

TEST(SimDevice, SaysWhatItIs) {
  const auto device = test::make_device({"dry", {}, true}, load_profile("gh200"));
  const Capability& capability = device->capability();
  EXPECT_EQ(capability.name, "sim:gh200");
  EXPECT_TRUE(capability.virtual_clock);
  EXPECT_TRUE(capability.dry);
  EXPECT_EQ(capability.capacity_bytes, load_profile("gh200").capacity_bytes);
}

TEST(SimDevice, CanBeFarLargerThanTheMachineWhenItIsDry) {
  Profile profile = test::slow_profile();
  profile.capacity_bytes = std::size_t{1} << 44;
  const auto device = test::make_device({"dry", {}, true}, profile);
  const auto address = device->memory().allocate(std::size_t{1} << 43, Purpose::kParameters,
                                                 device->current_stream());
  device->memory().free(address, {});
}

TEST(SimDevice, OnAFreeDeviceAllIsDoneAtOnceOnTheWallClock) {
  const auto device = test::make_device({"free", {}, false, true});
  bool ran = false;
  const Event event =
      device->current_stream().launch(test::op("op", 1e9), [&](void*) { ran = true; });
  EXPECT_TRUE(ran);
  EXPECT_TRUE(event.done());
  EXPECT_LT(device->now(), 60);
}

}  // namespace
}  // namespace ebb::device
