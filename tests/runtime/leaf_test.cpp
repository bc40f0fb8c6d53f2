#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops/ops.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::autograd {
namespace {

using test::values_of;
using Floats = std::vector<float>;

TEST(Leaf, NeedsAGradientWhenTold) {
  const auto device = test::checked_sim();
  const Tensor x = test::tensor_of(*device, {2}, {1, 2});
  EXPECT_FALSE(requires_grad(x));
  EXPECT_FALSE(requires_grad(Tensor()));
  set_requires_grad(x, true);
  EXPECT_TRUE(requires_grad(x));
  set_requires_grad(x, false);
  EXPECT_FALSE(requires_grad(x));
  EXPECT_THROW(set_requires_grad(test::tokens_of(*device, {1}, {1}), true), Error);
}

TEST(Leaf, IsWhatNoOpMade) {
  const auto device = test::checked_sim();
  const Tensor y = scale(test::random_leaf(*device, {2}, 1), 2);
  EXPECT_TRUE(requires_grad(y));
  EXPECT_THROW(set_requires_grad(y, false), Error);
  const Tensor cut = detach(y);
  EXPECT_FALSE(requires_grad(cut));
  EXPECT_EQ(cut.storage(), y.storage());
  EXPECT_NO_THROW(set_requires_grad(cut, true));
}

TEST(Leaf, AddsTheGradientsOfEachBackward) {
  const auto device = test::checked_sim();
  const Tensor x = test::random_leaf(*device, {2}, 1);
  EXPECT_FALSE(gradient(x).defined());
  backward(sum(scale(x, 3)));
  EXPECT_EQ(values_of(gradient(x)), (Floats{3, 3}));
  EXPECT_EQ(gradient(x).storage()->purpose(), Purpose::kGradients);
  backward(sum(scale(x, 4)));
  EXPECT_EQ(values_of(gradient(x)), (Floats{7, 7}));
}

TEST(Leaf, KeepsItsBufferWhenTheGradientIsOverwritten) {
  const auto device = test::checked_sim();
  const Tensor x = test::random_leaf(*device, {2}, 1);
  const Tensor buffer = Tensor::empty(*device, {2}, DType::kF32, Purpose::kGradients);
  set_gradient(x, buffer);
  overwrite_gradient(x);
  backward(sum(scale(x, 3)));
  EXPECT_EQ(values_of(buffer), (Floats{3, 3}));
  overwrite_gradient(x);
  backward(sum(add(scale(x, 2), scale(x, 3))));
  EXPECT_EQ(values_of(buffer), (Floats{5, 5})) << "overwritten once, then added to";
  EXPECT_TRUE(gradient(x).is(buffer));
}

TEST(Leaf, RefusesAGradientThatDoesNotFit) {
  const auto device = test::checked_sim();
  const Tensor x = test::random_leaf(*device, {2, 3}, 1);
  EXPECT_THROW(set_gradient(x, Tensor::empty(*device, {6}, DType::kF32)), Error);
  EXPECT_THROW(set_gradient(x, Tensor::empty(*device, {2, 3}, DType::kI32)), Error);
  EXPECT_THROW(set_gradient(x, Tensor::empty(*device, {3, 2}, DType::kF32).transpose(0, 1)),
               Error);
  EXPECT_NO_THROW(set_gradient(x, {}));
}

}  // namespace
}  // namespace ebb::autograd
