#include "runtime/train/micro_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/autograd/autograd.h"
#include "runtime/tensor/launch.h"
#include "tests/support/tensors.h"
#include "tests/support/tiny_training.h"

namespace ebb::train {
namespace {

class MicroBatchTest : public ::testing::Test {
 protected:
  MicroBatchTest() { make_gradients(model_.parameters()); }

  float run(std::uint32_t step, std::int64_t accumulate) {
    const std::vector<std::int32_t> tokens{1, 2, 3, 4, 5, 6, 7, 8};
    const DeviceBatch batch{.tokens = test::tokens_of(*device_, {1, 8}, tokens),
                            .targets = test::tokens_of(*device_, {1, 8}, tokens)};
    return test::values_of(
        run_micro_batch(model_,
                        {.batch = batch,
                         .key = {.seed = 1, .step = step},
                         .scale = accumulation_scale(*device_, accumulate)},
                        {}, nullptr))[0];
  }
  std::vector<float> gradient() const {
    return test::values_of(autograd::gradient(model_.parameters().back().tensor));
  }

  std::unique_ptr<device::CheckDevice> device_ = test::checked_sim();
  nn::Gpt2 model_{*device_, test::tiny_model(), 1};
};

TEST_F(MicroBatchTest, ScalesTheGradientsAndNotTheLoss) {
  begin_gradients(model_.parameters());
  const float whole = run(0, 1);
  const std::vector<float> full = gradient();
  begin_gradients(model_.parameters());
  EXPECT_EQ(run(0, 4), whole);
  const std::vector<float> quarter = gradient();
  // A quarter is exact in binary, at every step of the way.
  for (std::size_t i = 0; i < full.size(); ++i) EXPECT_EQ(quarter[i], full[i] / 4);
}

TEST_F(MicroBatchTest, AddsToTheGradientsUntilTheyAreBegunAnew) {
  begin_gradients(model_.parameters());
  run(0, 1);
  const std::vector<float> once = gradient();
  run(0, 1);
  EXPECT_EQ(gradient()[0], 2 * once[0]);
  begin_gradients(model_.parameters());
  run(0, 1);
  EXPECT_EQ(gradient(), once);
}

TEST_F(MicroBatchTest, DrawsItsDropoutFromItsKey) {
  EXPECT_EQ(run(0, 1), run(0, 1));
  EXPECT_NE(run(0, 1), run(1, 1));
}

TEST_F(MicroBatchTest, OneMicroBatchNeedsNoScale) {
  EXPECT_FALSE(accumulation_scale(*device_, 1).defined());
  EXPECT_EQ(test::values_of(accumulation_scale(*device_, 4))[0], 0.25F);
}

TEST_F(MicroBatchTest, GradientsAreAccountedAsSuch) {
  device_->synchronize();
  for (const nn::Parameter& parameter : model_.parameters()) {
    const Tensor gradient = autograd::gradient(parameter.tensor);
    EXPECT_EQ(gradient.storage()->purpose(), Purpose::kGradients);
    EXPECT_EQ(gradient.shape(), parameter.tensor.shape());
  }
}

}  // namespace
}  // namespace ebb::train
