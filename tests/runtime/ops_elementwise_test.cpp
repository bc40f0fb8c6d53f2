#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops/ops.h"
#include "tests/support/gradient_check.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::autograd {
namespace {

using test::values_of;
using Floats = std::vector<float>;

class OpsElementwiseTest : public testing::Test {
 protected:
  std::unique_ptr<device::CheckDevice> device_ = test::guarded_sim();
  Tensor a_ = test::random_leaf(*device_, {3, 4}, 1);
  Tensor b_ = test::random_leaf(*device_, {3, 4}, 2);
};

TEST_F(OpsElementwiseTest, GradientsAreRight) {
  test::expect_gradients([](std::span<const Tensor> in) { return add(in[0], in[1]); },
                         {a_, b_});
  test::expect_gradients([](std::span<const Tensor> in) { return multiply(in[0], in[1]); },
                         {a_, b_});
  test::expect_gradients([](std::span<const Tensor> in) { return scale(in[0], 2.5F); },
                         {a_});
  test::expect_gradients([](std::span<const Tensor> in) { return sum(in[0]); }, {a_});
}

TEST_F(OpsElementwiseTest, TakesTransposedOperands) {
  const Tensor x = test::tensor_of(*device_, {2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(values_of(add(x, x.transpose(0, 1))), (Floats{2, 5, 5, 8}));
  EXPECT_EQ(values_of(multiply(x, x.transpose(0, 1))), (Floats{1, 6, 6, 16}));
}

TEST_F(OpsElementwiseTest, SumsToOneElement) {
  const Tensor x = test::tensor_of(*device_, {2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(values_of(sum(x)), Floats{10});
  EXPECT_EQ(sum(x).shape(), tensor::Shape{1});
}

TEST_F(OpsElementwiseTest, AddsInPlaceAndKeepsTheGradient) {
  const Tensor h = scale(a_, 2);
  add_in_place(h, b_);
  backward(sum(multiply(h, h)));
  const Floats a = values_of(a_);
  const Floats b = values_of(b_);
  const Floats da = values_of(gradient(a_));
  const Floats db = values_of(gradient(b_));
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(da[i], 2 * 2 * (2 * a[i] + b[i]), 1e-5F);
    EXPECT_NEAR(db[i], 2 * (2 * a[i] + b[i]), 1e-5F);
  }
}

TEST_F(OpsElementwiseTest, AddingInPlaceToWhatWasSavedIsNoticed) {
  const Tensor h = scale(a_, 2);
  const Tensor y = gelu(h);
  add_in_place(h, b_);
  EXPECT_THROW(backward(sum(add(y, h))), Error);
}

TEST_F(OpsElementwiseTest, RefusesToWriteLeavesAndViewsInPlace) {
  EXPECT_THROW(add_in_place(a_, b_), Error);
  const Tensor h = scale(a_, 2);
  const Tensor part = slice(h, 0, 0, 3);
  EXPECT_THROW(add_in_place(part, b_), Error);
  EXPECT_THROW(add_in_place(h, b_), Error) << "it has a view";
  const NoGrad no_grad;
  EXPECT_NO_THROW(add_in_place(a_, detach(b_)));
}

TEST_F(OpsElementwiseTest, RefusesShapesThatDoNotFit) {
  EXPECT_THROW(add(a_, b_.view({4, 3})), Error);
  EXPECT_THROW(multiply(a_, test::tokens_of(*device_, {1}, {1})), Error);
  EXPECT_THROW(add_in_place(detach(a_).transpose(0, 1), detach(b_).transpose(0, 1)), Error);
}

}  // namespace
}  // namespace ebb::autograd
