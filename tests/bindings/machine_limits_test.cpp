#include "bindings/cli/train/machine_limits.h"

#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tiny_request.h"

namespace ebb::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Clearance cleared() {
  const Interrupt interrupt;
  return std::get<Clearance>(
      preflight(test::tiny_request({{"offload", "saved"}}), interrupt));
}

HostLimits leaves(std::size_t bytes) {
  HostLimits limits;
  limits.cgroup = {.file = "/sys/fs/cgroup/job/memory.max",
                   .group = "/job",
                   .limit_bytes = bytes + 1000,
                   .used_bytes = 1000};
  return limits;
}

TEST(MachineLimitsTest, RefusesASimulatedDeviceThatTheMachineHasNoRoomFor) {
  const Clearance run = cleared();
  const std::size_t needs = run.figures.memory.peak_reserved_bytes + run.host_reserve_bytes;
  const config::RunConfig real = test::tiny_request();
  EXPECT_FALSE(machine_refusal(real, run, leaves(needs)));
  EXPECT_FALSE(machine_refusal(real, run, {}));
  const auto refusal = machine_refusal(real, run, leaves(needs - 1));
  ASSERT_TRUE(refusal.has_value());
  EXPECT_THAT(refusal->message,
              AllOf(HasSubstr("/job/memory.max allows"), HasSubstr("to raise it: echo"),
                    HasSubstr("what is offloaded"), HasSubstr("add --dry")));
  EXPECT_FALSE(
      machine_refusal(test::tiny_request({{"dry", "true"}}), run, leaves(needs - 1)));
  EXPECT_TRUE(machine_refusal(test::tiny_request({{"verify-gradients", "true"}}), run,
                              leaves(needs)));
}

TEST(MachineLimitsTest, RefusesAHostBudgetThatTheMachineWillNeverHave) {
  const config::RunConfig asks = test::tiny_request({{"host-budget", "4096"}});
  EXPECT_FALSE(host_budget_refusal(asks, {}));
  EXPECT_FALSE(host_budget_refusal(asks, leaves(4096)));
  const auto refusal = host_budget_refusal(asks, leaves(3000));
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refusal->message,
              AllOf(HasSubstr("4 KiB"), HasSubstr("/job/memory.max"),
                    HasSubstr("lower --host-budget, or raise the limit: echo")));
  HostLimits machine;
  machine.total_bytes = 4095;
  EXPECT_THAT(host_budget_refusal(asks, machine)->message, HasSubstr("RAM"));
  EXPECT_FALSE(host_budget_refusal(
      test::tiny_request({{"host-budget", "4096"}, {"dry", "true"}}), machine));
}

TEST(MachineLimitsTest, NamesTheBudgetThatIsTooMuch) {
  HostLimits machine;
  machine.total_bytes = 4095;
  const auto refusal =
      host_budget_refusal(test::tiny_request({{"node-host-budget", "4096"}}), machine);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_THAT(refusal->message, AllOf(HasSubstr("lower --node-host-budget"),
                                      HasSubstr("4 KiB (4096 bytes) is more than"),
                                      HasSubstr("4.00 KiB (4095 bytes)")));
}

HostLimits addresses(std::size_t room) {
  HostLimits limits;
  limits.address_space_bytes = room + 1000;
  limits.mapped_bytes = 1000;
  return limits;
}

TEST(MachineLimitsTest, NamesTheLimitOfTheAddressSpace) {
  const Clearance run = cleared();
  const auto refusal = machine_refusal(test::tiny_request(), run, addresses(4096));
  ASSERT_TRUE(refusal.has_value());
  EXPECT_THAT(refusal->message,
              AllOf(HasSubstr("RLIMIT_AS"), HasSubstr("ulimit -v unlimited")));
}

TEST(MachineLimitsTest, TakesAddressesForWhatTheLimitLeavesOnly) {
  Clearance run = cleared();
  const std::size_t peak = run.figures.memory.peak_reserved_bytes;
  const config::RunConfig config = test::tiny_request();
  EXPECT_EQ(device_addresses(config, run, {}).device_limit_bytes, peak);
  EXPECT_FALSE(device_addresses(config, run, addresses(4096)).limited);
  run.device_limit_bytes = std::size_t{80} << 30;
  EXPECT_FALSE(device_addresses(config, run, {}).limited);
  const std::size_t room = std::size_t{2} << 30;
  const DeviceAddresses less = device_addresses(config, run, addresses(room));
  EXPECT_TRUE(less.limited);
  EXPECT_LE(less.device_limit_bytes, room / 2);
  EXPECT_GE(less.device_limit_bytes, peak);
  run.device_limit_bytes = std::nullopt;
  EXPECT_EQ(device_addresses(config, run, addresses(4096)).device_limit_bytes, peak);
  const auto verified = test::tiny_request({{"verify-gradients", "true"}});
  EXPECT_FALSE(device_addresses(verified, run, {}).reference_limit_bytes);
  EXPECT_TRUE(device_addresses(verified, run, addresses(room)).reference_limit_bytes);
}

}  // namespace
}  // namespace ebb::cli
