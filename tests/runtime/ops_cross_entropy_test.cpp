#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops/ops.h"
#include "runtime/autograd/primitive.h"
#include "tests/support/gradient_check.h"
#include "tests/support/host_hooks.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::autograd {
namespace {

using test::values_of;

class OpsCrossEntropyTest : public testing::Test {
 protected:
  std::unique_ptr<device::CheckDevice> device_ = test::guarded_sim();
  Tensor x_ = test::random_leaf(*device_, {2, 3, 4}, 1);
  Tensor w_ = test::random_parameter(*device_, {7, 4}, 2);
  Tensor targets_ = test::tokens_of(*device_, {2, 3}, {1, 6, -1, 0, 3, -1});
};

TEST_F(OpsCrossEntropyTest, IsTheMeanOverTheTargetsThatCount) {
  const std::vector<float> x = values_of(x_);
  const std::vector<float> w = values_of(w_);
  const int targets[] = {1, 6, -1, 0, 3, -1};
  double expected = 0;
  for (std::size_t row = 0; row < 6; ++row) {
    if (targets[row] < 0) continue;
    double total = 0;
    double chosen = 0;
    for (std::size_t v = 0; v < 7; ++v) {
      double logit = 0;
      for (std::size_t i = 0; i < 4; ++i) {
        logit += static_cast<double>(x[row * 4 + i] * w[v * 4 + i]);
      }
      total += std::exp(logit);
      if (static_cast<int>(v) == targets[row]) chosen = logit;
    }
    expected += (std::log(total) - chosen) / 4;
  }
  const Tensor loss = linear_cross_entropy(x_, w_, targets_);
  EXPECT_EQ(loss.shape(), tensor::Shape{1});
  EXPECT_NEAR(values_of(loss)[0], expected, 1e-5);
  const NoGrad no_grad;
  EXPECT_EQ(values_of(linear_cross_entropy(x_, w_, targets_)), values_of(loss));
}

TEST_F(OpsCrossEntropyTest, GradientsAreRight) {
  test::expect_gradients(
      [&](std::span<const Tensor> in) {
        return scale(linear_cross_entropy(in[0], in[1], targets_), 10);
      },
      {x_, w_});
}

TEST_F(OpsCrossEntropyTest, GradientsAreRightWhereOneIsNotNeeded) {
  const auto loss = [&](std::span<const Tensor> in) {
    return scale(linear_cross_entropy(in[0], in[1], targets_), 10);
  };
  test::expect_gradients(loss, {detach(x_), w_});
  test::expect_gradients(loss, {x_, detach(w_)});
}

TEST_F(OpsCrossEntropyTest, IsZeroWhereNoTargetCounts) {
  const Tensor none = test::tokens_of(*device_, {2, 3}, std::vector<std::int32_t>(6, -1));
  const Tensor loss = linear_cross_entropy(x_, w_, none);
  backward(loss);
  EXPECT_EQ(values_of(loss)[0], 0);
  EXPECT_EQ(values_of(gradient(w_)), std::vector<float>(28, 0));
}

TEST_F(OpsCrossEntropyTest, MayBeRunBackwardTwice) {
  const Tensor loss = linear_cross_entropy(x_, w_, targets_);
  backward(loss, {.retain_graph = true});
  const std::vector<float> once = values_of(gradient(x_));
  set_gradient(x_, {});
  backward(loss);
  EXPECT_EQ(values_of(gradient(x_)), once);
}

TEST_F(OpsCrossEntropyTest, RefusesShapesThatDoNotFit) {
  EXPECT_THROW(linear_cross_entropy(x_, w_, test::tokens_of(*device_, {2}, {1, 2})), Error);
  EXPECT_THROW(linear_cross_entropy(x_, test::random_tensor(*device_, {7, 3}, 1), targets_),
               Error);
  EXPECT_THROW(linear_cross_entropy(x_, w_, x_), Error);
}

// Dry, as the real thing would take a minute: 100,000 rows of 50,000 logits.
TEST(OpsCrossEntropy, SavesTheLogitsOnceInChunksOfAtMost256MiB) {
  device::SimOptions options = test::sim_options();
  options.dry = true;
  options.limit_bytes.reset();
  const auto device = test::checked(options);
  const Tensor x = Tensor::empty(*device, {100'000, 8}, DType::kF32);
  const Tensor w = Tensor::empty(*device, {50'000, 8}, DType::kF32, Purpose::kParameters);
  set_requires_grad(x, true);
  set_requires_grad(w, true);
  const Tensor targets = Tensor::empty(*device, {100'000}, DType::kI32);
  constexpr std::size_t kLogits = std::size_t{100'000} * 50'000 * 4;
  device->synchronize();
  device->memory().reset_peaks();
  {
    const NoGrad no_grad;
    linear_cross_entropy(x, w, targets);
    device->synchronize();
    EXPECT_LE(device->memory().figures().peak_bytes, std::size_t{300} << 20);
  }
  const Tensor loss = linear_cross_entropy(x, w, targets);
  const std::size_t held = device->memory().figures().lent.activations();
  EXPECT_GE(held, kLogits);
  EXPECT_LE(held, kLogits + (std::size_t{10} << 20));
  backward(loss);
  device->synchronize();
  EXPECT_LE(device->memory().figures().peak_activation_bytes,
            kLogits + (std::size_t{300} << 20));
}

// A vocabulary so large that each row is a chunk. With a weight of zeros all probabilities
// are the same, next to nothing, and a target's gradient is -x / 2.
TEST(OpsCrossEntropy, AddsTheGradientsOfItsChunks) {
  constexpr std::int64_t kVocabulary = (std::int64_t{1} << 25) + 1;
  device::SimOptions options = test::sim_options();
  options.limit_bytes = std::size_t{1} << 30;
  const auto device = test::checked(options);
  const Tensor x = test::tensor_of(*device, {2, 1}, {1, 10});
  const Tensor w = Tensor::empty(*device, {kVocabulary, 1}, DType::kF32);
  fill(w, 0);
  set_requires_grad(w, true);
  set_requires_grad(x, true);
  const Tensor loss = linear_cross_entropy(x, w, test::tokens_of(*device, {2}, {3, 5}));
  EXPECT_NEAR(values_of(loss)[0], std::log(static_cast<double>(kVocabulary)), 1e-3);
  backward(loss);
  const std::vector<float> values = values_of(gradient(w).slice(0, 0, 8));
  const float expected[] = {0, 0, 0, -0.5F, 0, -5, 0, 0};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(values[i], expected[i], 1e-5F) << i;
}

TEST(OpsCrossEntropy, SpeaksOfItsChunksInTheOrderOfTheirUse) {
  device::SimOptions options = test::sim_options();
  options.dry = true;
  options.limit_bytes.reset();
  const auto device = test::checked(options);
  // Looks at the order, and leaves the bytes where they are.
  class Looker final : public SavedTensorHooks {
   public:
    class Kept final : public PackedTensor {
     public:
      Kept(Looker& looker, const Tensor& tensor) : looker_(looker), tensor_(tensor) {}
      Tensor unpack() override {
        looker_.used.push_back(this);
        return tensor_;
      }
      void used() noexcept override {}

     private:
      Looker& looker_;
      Tensor tensor_;
    };
    PackResult pack(const Tensor& tensor, const SaveSite&) override {
      return std::make_unique<Kept>(*this, tensor);
    }
    void begin_backward(std::span<PackedTensor* const> order) override {
      said.assign(order.begin(), order.end());
    }
    void end_backward() noexcept override {}

    std::vector<PackedTensor*> said;
    std::vector<PackedTensor*> used;
  };
  Looker looker;
  const HooksScope scope(&looker);
  const Tensor x = Tensor::empty(*device, {10'000, 8}, DType::kF32);
  const Tensor w = Tensor::empty(*device, {50'000, 8}, DType::kF32, Purpose::kParameters);
  set_requires_grad(x, true);
  set_requires_grad(w, true);
  backward(linear_cross_entropy(x, w, Tensor::empty(*device, {10'000}, DType::kI32)));
  EXPECT_EQ(looker.used.size(), 10U);  // x, the factor, 8 chunks.
  EXPECT_EQ(looker.said, looker.used);
}

}  // namespace
}  // namespace ebb::autograd
