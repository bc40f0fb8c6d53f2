#include "runtime/train/gradient_probe.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/autograd/autograd.h"
#include "runtime/tensor/launch.h"
#include "tests/support/errors.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::train {
namespace {

using test::fails_with;
using ::testing::SizeIs;

nn::Parameters parameters_on(device::Device& device) {
  nn::Parameters parameters;
  for (const std::uint64_t seed : {1U, 2U}) {
    const Tensor leaf = test::random_parameter(device, {3, 5}, seed);
    autograd::set_gradient(
        leaf, test::random_tensor(device, {3, 5}, seed + 10, Purpose::kGradients));
    parameters.push_back({.name = "p", .tensor = leaf, .decay = false});
  }
  return parameters;
}

TEST(GradientProbeTest, SeesTheGradientsAtItsPlaceInTheOrderOfWork) {
  for (const device::Order& order : test::all_orders()) {
    const auto device = test::checked_sim(order);
    const nn::Parameters parameters = parameters_on(*device);
    const GradientProbe before(parameters, true);
    const std::vector<float> changed(15, 0.5F);
    const Tensor gradient = autograd::gradient(parameters[1].tensor);
    const std::vector<float> first = test::values_of(gradient);
    tensor::copy_from_host(gradient, changed.data());
    const GradientProbe after(parameters, true);
    device->synchronize();
    ASSERT_TRUE(before.checksum() && after.checksum());
    EXPECT_NE(*before.checksum(), *after.checksum());
    ASSERT_THAT(before.gradients(), SizeIs(2));
    ASSERT_THAT(before.weights(), SizeIs(2));
    EXPECT_EQ(std::memcmp(before.gradients()[1].data(), first.data(), 60), 0);
    EXPECT_EQ(std::memcmp(after.gradients()[1].data(), changed.data(), 60), 0);
    EXPECT_GE(before.wall_seconds(), 0);
  }
}

TEST(GradientProbeTest, TakesNoTimeOfTheDevice) {
  const auto device = test::checked_sim();
  const nn::Parameters parameters = parameters_on(*device);
  device->synchronize();
  const double before = device->now();
  const GradientProbe probe(parameters, false);
  device->synchronize();
  EXPECT_EQ(device->now(), before);
  EXPECT_TRUE(probe.weights().empty());
}

TEST(GradientProbeTest, FindsNothingOnADryDevice) {
  const auto device = test::dry_sim();
  const GradientProbe probe(parameters_on(*device), true);
  device->synchronize();
  EXPECT_FALSE(probe.checksum().has_value());
}

TEST(GradientProbeTest, NeedsAGradientForEveryParameter) {
  const auto device = test::checked_sim();
  nn::Parameters parameters = parameters_on(*device);
  autograd::set_gradient(parameters[0].tensor, {});
  EXPECT_THAT([&] { GradientProbe(parameters, false); },
              fails_with(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace ebb::train
