#include <gtest/gtest.h>

#include "allocator/error.h"
#include "kernels/philox.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops/ops.h"
#include "tests/support/gradient_check.h"
#include "tests/support/host_hooks.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::autograd {
namespace {

using test::values_of;

class OpsDropoutTest : public testing::Test {
 protected:
  OpsDropoutTest() { set_random({.seed = 3, .step = 1, .op = 0, .first_sample = 0}); }

  std::unique_ptr<device::CheckDevice> device_ = test::guarded_sim();
  Tensor x_ = test::random_leaf(*device_, {2, 3, 5}, 1);
  Tensor residual_ = test::random_leaf(*device_, {2, 3, 5}, 2);
};

TEST_F(OpsDropoutTest, DropsWhatPhiloxSays) {
  const std::vector<float> y = values_of(dropout_add(x_, residual_, 0.25F));
  const std::vector<float> x = values_of(x_);
  const std::vector<float> residual = values_of(residual_);
  const RandomKey key{.seed = 3, .step = 1, .op = 0, .first_sample = 0};
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t element = i % 15;
    const PhiloxBlock block = random_block(key, i / 15, element / 4);
    const bool kept = block[element % 4] >= drop_threshold(0.25F);
    EXPECT_NEAR(y[i], (kept ? x[i] / 0.75F : 0) + residual[i], 1e-6F) << i;
  }
}

TEST_F(OpsDropoutTest, GradientsAreRight) {
  test::expect_gradients(
      [](std::span<const Tensor> in) {
        set_random({.seed = 5});
        return dropout_add(in[0], in[1], 0.4F);
      },
      {x_, residual_});
}

TEST_F(OpsDropoutTest, GradientsAreRightWithoutAResidual) {
  test::expect_gradients(
      [](std::span<const Tensor> in) {
        set_random({.seed = 5});
        return dropout_add(in[0], {}, 0.4F);
      },
      {x_});
}

TEST_F(OpsDropoutTest, SavesNothing) {
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  const Tensor y = dropout_add(x_, residual_, 0.4F);
  EXPECT_TRUE(hooks.log().packed.empty());
}

TEST_F(OpsDropoutTest, OnlyAddsWhereNothingIsDropped) {
  const std::vector<float> expected = values_of(add(x_, residual_));
  EXPECT_EQ(values_of(dropout_add(x_, residual_, 0)), expected);
  EXPECT_EQ(next_random().op, 0U) << "nothing was drawn";
  const TrainingScope evaluate(false);
  EXPECT_EQ(values_of(dropout_add(x_, residual_, 0.5F)), expected);
  EXPECT_TRUE(dropout_add(x_, {}, 0.5F).is(x_));
}

TEST_F(OpsDropoutTest, DependsOnTheGlobalSampleOnly) {
  const std::vector<float> both = values_of(dropout_add(x_, {}, 0.5F));
  set_random({.seed = 3, .step = 1, .op = 0, .first_sample = 1});
  const std::vector<float> second =
      values_of(dropout_add(detach(x_).slice(0, 1, 2), {}, 0.5F));
  EXPECT_EQ(second, std::vector<float>(both.begin() + 15, both.end()));
}

TEST_F(OpsDropoutTest, RefusesBadArguments) {
  EXPECT_THROW(dropout_add(x_, residual_, 1), Error);
  EXPECT_THROW(dropout_add(x_, residual_, -0.1F), Error);
  EXPECT_THROW(dropout_add(x_, residual_.view({6, 5}), 0.1F), Error);
}

}  // namespace
}  // namespace ebb::autograd
