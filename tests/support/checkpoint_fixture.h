// A small model to checkpoint.

#pragma once

#include <memory>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops/ops.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::test {

// A small model of two linear layers with dropout; the segments share its weights.
class CheckpointTest : public testing::Test {
 protected:
  ~CheckpointTest() override {
    x_ = w1_ = w2_ = {};
    EXPECT_EQ(device_->memory().figures().lent.total(), 0U) << "bytes are left behind";
  }

  explicit CheckpointTest(const device::Order& order = {}) : device_(checked_sim(order)) {
    x_ = random_leaf(*device_, {3, 8}, 1);
    w1_ = random_parameter(*device_, {16, 8}, 2);
    w2_ = random_parameter(*device_, {8, 16}, 3);
    autograd::set_random({.seed = 9, .step = 4});
  }

  // Uses x twice, and draws random numbers.
  Tensor block(const Tensor& x) const {
    Tensor h = autograd::linear_gelu(x, w1_, {});
    h = autograd::linear(h, w2_, {});
    return autograd::dropout_add(h, x, 0.3F);
  }
  autograd::Segment segment() const {
    return [this](std::span<const Tensor> in) { return std::vector<Tensor>{block(in[0])}; };
  }
  Tensor run(const autograd::Segment& segment, const Tensor& x) const {
    const Tensor inputs[] = {x};
    return autograd::checkpoint(segment, inputs).front();
  }
  // Gradients of autograd::sum(y^2 / 2) and of y's parameters, and y's values; clears them.
  std::vector<std::vector<float>> results(const Tensor& y) const {
    std::vector<std::vector<float>> values = {values_of(y)};
    autograd::backward(autograd::sum(autograd::scale(autograd::multiply(y, y), 0.5F)));
    for (const Tensor& leaf : {x_, w1_, w2_}) {
      values.push_back(values_of(autograd::gradient(leaf)));
      autograd::set_gradient(leaf, {});
    }
    return values;
  }
  std::vector<std::vector<float>> plain(int blocks) const {
    autograd::set_random({.seed = 9, .step = 4});
    Tensor h = x_;
    for (int i = 0; i < blocks; ++i) h = block(h);
    return results(h);
  }
  std::vector<std::vector<float>> checkpointed(int blocks) const {
    autograd::set_random({.seed = 9, .step = 4});
    Tensor h = x_;
    for (int i = 0; i < blocks; ++i) h = run(segment(), h);
    return results(h);
  }

  std::unique_ptr<device::CheckDevice> device_;
  Tensor x_;
  Tensor w1_;
  Tensor w2_;
};

}  // namespace ebb::test
