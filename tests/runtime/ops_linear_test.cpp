#include <gmock/gmock.h>
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
using testing::ElementsAre;

class OpsLinearTest : public testing::Test {
 protected:
  std::unique_ptr<device::CheckDevice> device_ = test::guarded_sim();
  Tensor x_ = test::random_leaf(*device_, {2, 3, 5}, 1);
  Tensor w_ = test::random_parameter(*device_, {4, 5}, 2);
  Tensor b_ = test::random_parameter(*device_, {4}, 3);
};

TEST_F(OpsLinearTest, MultipliesByTheTransposedWeight) {
  const std::vector<float> x = values_of(x_);
  const std::vector<float> w = values_of(w_);
  const std::vector<float> b = values_of(b_);
  const Tensor y = linear(x_, w_, b_);
  EXPECT_THAT(y.shape(), ElementsAre(2, 3, 4));
  const std::vector<float> values = values_of(y);
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t out = 0; out < 4; ++out) {
      double expected = static_cast<double>(b[out]);
      for (std::size_t in = 0; in < 5; ++in) {
        expected += static_cast<double>(x[row * 5 + in] * w[out * 5 + in]);
      }
      EXPECT_NEAR(values[row * 4 + out], expected, 1e-5);
    }
  }
}

TEST_F(OpsLinearTest, GradientsAreRight) {
  test::expect_gradients(
      [](std::span<const Tensor> in) { return linear(in[0], in[1], in[2]); }, {x_, w_, b_});
}

TEST_F(OpsLinearTest, GradientsAreRightWithoutABias) {
  test::expect_gradients(
      [](std::span<const Tensor> in) { return linear(in[0], in[1], {}); }, {x_, w_});
}

TEST_F(OpsLinearTest, GradientsAreRightWhereSomeAreNotNeeded) {
  for (int frozen = 0; frozen < 7; ++frozen) {
    std::vector<Tensor> inputs = {x_, w_, b_};
    for (std::size_t i = 0; i < 3; ++i) {
      inputs[i] = detach(inputs[i]);
      set_requires_grad(inputs[i], ((frozen >> i) & 1) == 0);
    }
    test::expect_gradients(
        [](std::span<const Tensor> in) { return linear(in[0], in[1], in[2]); }, inputs);
  }
}

TEST_F(OpsLinearTest, GradientsAreRightOfATransposedInput) {
  test::expect_gradients(
      [](std::span<const Tensor> in) { return linear(transpose(in[0], 0, 1), in[1], {}); },
      {test::random_leaf(*device_, {5, 3}, 4), w_});
}

TEST_F(OpsLinearTest, GeluGradientsAreRight) {
  test::expect_gradients([](std::span<const Tensor> in) { return gelu(in[0]); }, {x_});
  test::expect_gradients(
      [](std::span<const Tensor> in) { return linear_gelu(in[0], in[1], in[2]); },
      {x_, w_, b_});
}

TEST_F(OpsLinearTest, GeluDoesNotWriteOverAGradientThatOthersGetToo) {
  test::expect_gradients(
      [](std::span<const Tensor> in) { return add(gelu(in[0]), gelu(in[1])); },
      {x_, test::random_leaf(*device_, {2, 3, 5}, 9)});
}

TEST_F(OpsLinearTest, FusesGeluWhereNothingIsKept) {
  const Tensor apart = gelu(linear(x_, w_, b_));
  const NoGrad no_grad;
  const std::vector<float> fused = values_of(linear_gelu(x_, w_, b_));
  const std::vector<float> expected = values_of(apart);
  for (std::size_t i = 0; i < fused.size(); ++i) EXPECT_NEAR(fused[i], expected[i], 1e-5F);
}

TEST_F(OpsLinearTest, SavesWhatItsGradientsNeedAndNoMore) {
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  const Tensor frozen = detach(w_);
  const Tensor first = linear(x_, frozen, {});
  EXPECT_TRUE(hooks.log().packed.empty()) << "dx needs the weight only";
  const Tensor second = linear(x_, w_, {});
  EXPECT_THAT(hooks.log().packed, ElementsAre("linear"));
}

TEST_F(OpsLinearTest, RefusesShapesThatDoNotFit) {
  EXPECT_THROW(linear(x_, test::random_tensor(*device_, {4, 6}, 1), {}), Error);
  EXPECT_THROW(linear(x_, test::random_tensor(*device_, {5}, 1), {}), Error);
  EXPECT_THROW(linear(x_, w_, test::random_tensor(*device_, {5}, 1)), Error);
  EXPECT_THROW(linear(test::tokens_of(*device_, {1, 5}, {1, 2, 3, 4, 5}), w_, {}), Error);
}

}  // namespace
}  // namespace ebb::autograd
