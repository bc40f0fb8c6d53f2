#include <cmath>

#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops/ops.h"
#include "tests/support/gradient_check.h"
#include "tests/support/host_hooks.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::autograd {
namespace {

using test::values_of;

class OpsNormTest : public testing::Test {
 protected:
  std::unique_ptr<device::CheckDevice> device_ = test::guarded_sim();
  Tensor x_ = test::random_leaf(*device_, {2, 3, 8}, 1);
  Tensor gamma_ = test::random_parameter(*device_, {8}, 2);
  Tensor beta_ = test::random_parameter(*device_, {8}, 3);
};

TEST_F(OpsNormTest, HasMeanZeroAndVarianceOne) {
  const Tensor ones = test::tensor_of(*device_, {8}, std::vector<float>(8, 1));
  const Tensor zeros = test::tensor_of(*device_, {8}, std::vector<float>(8, 0));
  const std::vector<float> y = values_of(layer_norm(x_, ones, zeros));
  for (std::size_t row = 0; row < 6; ++row) {
    double mean = 0;
    double square = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      mean += static_cast<double>(y[row * 8 + i]) / 8;
      square += static_cast<double>(y[row * 8 + i] * y[row * 8 + i]) / 8;
    }
    EXPECT_NEAR(mean, 0, 1e-6);
    EXPECT_NEAR(square, 1, 1e-3);
  }
}

TEST_F(OpsNormTest, GradientsAreRight) {
  test::expect_gradients(
      [](std::span<const Tensor> in) { return layer_norm(in[0], in[1], in[2]); },
      {x_, gamma_, beta_});
}

TEST_F(OpsNormTest, GradientsAreRightWhereSomeAreNotNeeded) {
  test::expect_gradients(
      [](std::span<const Tensor> in) { return layer_norm(in[0], in[1], in[2]); },
      {x_, detach(gamma_), detach(beta_)});
  test::expect_gradients(
      [](std::span<const Tensor> in) { return layer_norm(in[0], in[1], in[2]); },
      {detach(x_), gamma_, detach(beta_)});
}

TEST_F(OpsNormTest, GivesTheSameBitsThroughHooks) {
  backward(sum(layer_norm(x_, gamma_, beta_)));
  const std::vector<float> expected = values_of(gradient(x_));
  set_gradient(x_, {});
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  backward(sum(layer_norm(x_, gamma_, beta_)));
  EXPECT_EQ(values_of(gradient(x_)), expected);
}

TEST_F(OpsNormTest, RefusesShapesThatDoNotFit) {
  EXPECT_THROW(layer_norm(x_, test::random_tensor(*device_, {7}, 1), beta_), Error);
  EXPECT_THROW(layer_norm(x_, gamma_, Tensor()), Error);
}

}  // namespace
}  // namespace ebb::autograd
