// Gradients against finite differences.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops/ops.h"
#include "tests/support/tensors.h"

namespace ebb::test {

using TensorFunction = std::function<Tensor(std::span<const Tensor>)>;

// The weighted sum of a tensor, in double.
inline double weighted_sum(const Tensor& y, const std::vector<float>& weights) {
  const std::vector<float> values = values_of(autograd::contiguous(y));
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += static_cast<double>(values[i]) * static_cast<double>(weights[i]);
  }
  return sum;
}

// Compares the gradients of a weighted sum of function(inputs) with central differences,
// for each element of each input that needs one.
//
// With values of order 1 and a step of h = 2^-7: rounding leaves 2^-24 sqrt(n) / h, about
// 1e-4 for n up to 200, and the third derivative h^2 / 6, about 1e-5 of it. A tolerance of
// 2e-3 of the largest gradient (and 1) lets both pass and no wrong formula.
inline void expect_gradients(const TensorFunction& function,
                             const std::vector<Tensor>& inputs) {
  constexpr float kStep = 1.0F / 128.0F;
  for (const Tensor& input : inputs) autograd::set_gradient(input, {});
  const Tensor y = function(inputs);
  const std::vector<float> weights = random_values(y.elements(), 77);
  autograd::backward(y, {.gradient = tensor_of(y.device(), y.shape(), weights)});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!autograd::requires_grad(inputs[i])) continue;
    const Tensor gradient = autograd::gradient(inputs[i]);
    ASSERT_TRUE(gradient.defined()) << "input " << i;
    const std::vector<float> analytic = values_of(gradient);
    const std::vector<float> at = values_of(inputs[i]);
    float largest = 1;
    for (const float g : analytic) largest = std::max(largest, std::fabs(g));
    const autograd::NoGrad no_grad;
    for (std::size_t e = 0; e < at.size(); ++e) {
      const auto moved = [&](float step) {
        std::vector<float> values = at;
        values[e] += step;
        std::vector<Tensor> changed = inputs;
        changed[i] = tensor_of(y.device(), inputs[i].shape(), values);
        return weighted_sum(function(changed), weights);
      };
      const double numeric =
          (moved(kStep) - moved(-kStep)) / (2 * static_cast<double>(kStep));
      ASSERT_NEAR(analytic[e], numeric, 2e-3 * static_cast<double>(largest))
          << "input " << i << ", element " << e;
    }
  }
}

}  // namespace ebb::test
