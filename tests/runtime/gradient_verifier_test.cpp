#include "runtime/train/gradient_verifier.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/autograd/autograd.h"
#include "runtime/tensor/launch.h"
#include "runtime/train/micro_batch.h"
#include "tests/support/tensors.h"
#include "tests/support/tiny_training.h"

namespace ebb::train {
namespace {

TEST(GradientVerifierTest, FindsEqualWhatIsEqual) {
  test::TinyTraining tiny(test::checked_sim());
  const auto reference = test::checked_sim();
  GradientVerifier verifier(*reference, test::tiny_model());
  TrainOptions options = test::tiny_options();
  options.accumulate = 2;
  options.segments = {{0, 1}};
  const auto trainer = tiny.trainer(options, nullptr, &verifier);
  for (int step = 0; step < 3; ++step) trainer->step();
  EXPECT_EQ(verifier.figures().steps, 3);
  EXPECT_TRUE(verifier.figures().bit_equal);
  EXPECT_EQ(verifier.figures().max_abs_difference, 0);
  EXPECT_EQ(verifier.figures().first_difference, "");
}

// One step by hand, in which one element of one gradient is made wrong.
class WrongGradientTest : public ::testing::Test {
 protected:
  VerifyFigures verify_with(std::size_t parameter, std::size_t element, float value) {
    const auto device = test::checked_sim();
    const nn::Gpt2 model(*device, test::tiny_model(), 1);
    const RandomKey key{.seed = 5};
    std::vector<std::int32_t> tokens(16, 7);
    std::vector<std::int32_t> targets(16, 9);
    make_gradients(model.parameters());
    begin_gradients(model.parameters());
    const DeviceBatch batch{.tokens = test::tokens_of(*device, {2, 8}, tokens),
                            .targets = test::tokens_of(*device, {2, 8}, targets)};
    (void)run_micro_batch(model, {.batch = batch, .key = key, .scale = {}}, {}, nullptr);
    const Tensor gradient = autograd::gradient(model.parameters()[parameter].tensor);
    std::vector<float> values = test::values_of(gradient);
    right_ = values[element];
    values[element] = value;
    tensor::copy_from_host(gradient, values.data());
    const GradientProbe probe(model.parameters(), true);
    device->synchronize();
    const auto reference = test::checked_sim();
    GradientVerifier verifier(*reference, test::tiny_model());
    const std::vector<VerifyBatch> batches{{.host = {tokens, targets}, .key = key}};
    verifier.verify(4, probe, batches, 2, 8);
    name_ = model.parameters()[parameter].name;
    return verifier.figures();
  }

  float right_ = 0;
  std::string name_;
};

TEST_F(WrongGradientTest, NamesTheStepAndTheParameterThatDiffer) {
  const VerifyFigures figures = verify_with(3, 5, 100.0F);
  EXPECT_FALSE(figures.bit_equal);
  EXPECT_EQ(figures.max_abs_difference, std::abs(100.0 - static_cast<double>(right_)));
  EXPECT_EQ(figures.first_difference, "step 5, " + name_);
}

TEST_F(WrongGradientTest, SeesADifferenceOfOneBit) {
  (void)verify_with(0, 9, 1.0F);
  const float next = std::nextafter(right_, 2.0F);
  const VerifyFigures figures = verify_with(0, 9, next);
  EXPECT_FALSE(figures.bit_equal);
  EXPECT_GT(figures.max_abs_difference, 0);
}

TEST_F(WrongGradientTest, CountsANumberThatIsNoneAsInfinitelyWrong) {
  const VerifyFigures figures = verify_with(1, 0, std::numeric_limits<float>::quiet_NaN());
  EXPECT_FALSE(figures.bit_equal);
  EXPECT_TRUE(std::isinf(figures.max_abs_difference));
}

}  // namespace
}  // namespace ebb::train
