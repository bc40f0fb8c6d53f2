#include "runtime/train/adamw.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/autograd/autograd.h"
#include "tests/support/errors.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::train {
namespace {

using test::fails_with;

class AdamWTest : public ::testing::Test {
 protected:
  AdamWTest() {
    for (const bool decay : {true, false}) {
      Tensor leaf = test::random_parameter(*device_, {3, 5}, decay ? 1 : 2);
      parameters_.push_back(
          {.name = decay ? "weight" : "bias", .tensor = leaf, .decay = decay});
    }
  }

  void give_gradients(std::uint64_t seed, float factor = 1) {
    gradients_.clear();
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      std::vector<float> values = test::random_values(15, seed + i);
      for (float& value : values) value *= factor;
      autograd::set_gradient(
          parameters_[i].tensor,
          test::tensor_of(*device_, {3, 5}, values, Purpose::kGradients));
      gradients_.push_back(values);
    }
  }

  double norm() const {
    double sum = 0;
    for (const auto& gradient : gradients_) {
      for (const float value : gradient) sum += static_cast<double>(value) * value;
    }
    return std::sqrt(sum);
  }

  std::unique_ptr<device::CheckDevice> device_ = test::checked_sim();
  nn::Parameters parameters_;
  std::vector<std::vector<float>> gradients_;
};

// Algorithm 2 of arXiv 1711.05101 in doubles, on clipped gradients.
TEST_F(AdamWTest, FollowsTheAlgorithmOfItsPaper) {
  const AdamWOptions options{.weight_decay = 0.3F, .max_norm = 0.5F};
  std::vector<std::vector<double>> x(2), m(2, std::vector<double>(15)), v = m;
  for (std::size_t p = 0; p < 2; ++p) {
    for (const float value : test::values_of(parameters_[p].tensor)) x[p].push_back(value);
  }
  AdamW optimizer(parameters_, options);
  for (int step = 1; step <= 3; ++step) {
    const double rate = 0.01 * step;
    give_gradients(static_cast<std::uint64_t>(10 * step), step == 3 ? 1e-3F : 1.0F);
    optimizer.step(rate);
    EXPECT_NEAR(test::values_of(optimizer.norm())[0], norm(), 1e-6 * norm());
    const double factor = std::min(1.0, 0.5 / (norm() + 1e-6));
    for (std::size_t p = 0; p < 2; ++p) {
      const std::vector<float> found = test::values_of(parameters_[p].tensor);
      for (std::size_t i = 0; i < 15; ++i) {
        const double g = factor * gradients_[p][i];
        m[p][i] = 0.9 * m[p][i] + 0.1 * g;
        v[p][i] = 0.95 * v[p][i] + 0.05 * g * g;
        const double decay = parameters_[p].decay ? 0.3 : 0;
        x[p][i] -= rate * decay * x[p][i];
        x[p][i] -= rate * (m[p][i] / (1 - std::pow(0.9, step))) /
                   (std::sqrt(v[p][i] / (1 - std::pow(0.95, step))) + 1e-8);
        // Each of the steps rounds a few times, and each value is below 2.
        EXPECT_NEAR(found[i], x[p][i], 1e-6) << step << ", " << p << ", " << i;
      }
    }
  }
  EXPECT_EQ(optimizer.steps(), 3);
}

TEST_F(AdamWTest, HoldsTwoNumbersForEachElementAsOptimizerState) {
  const std::size_t before = device_->memory().figures().reserved_bytes;
  const AdamW optimizer(parameters_, {});
  device_->synchronize();
  const device::MemoryFigures figures = device_->memory().figures();
  EXPECT_GE(figures.live[Purpose::kOptimizer], 4 * 15 * sizeof(float));
  EXPECT_GT(figures.reserved_bytes, before);
}

TEST_F(AdamWTest, RaisesTheVersionOfWhatItChanges) {
  give_gradients(1);
  const auto version = parameters_[0].tensor.storage()->version();
  const std::uint64_t before = version->value;
  AdamW optimizer(parameters_, {});
  optimizer.step(0.1);
  EXPECT_GT(version->value, before);
}

TEST_F(AdamWTest, NamesAParameterWithoutAGradient) {
  AdamW optimizer(parameters_, {});
  EXPECT_THAT([&] { optimizer.step(0.1); },
              fails_with(absl::StatusCode::kFailedPrecondition));
}

TEST_F(AdamWTest, NeedsParameters) {
  const nn::Parameters none;
  EXPECT_THAT([&] { AdamW(none, {}); }, fails_with(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace ebb::train
