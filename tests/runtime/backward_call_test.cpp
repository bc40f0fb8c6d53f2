#include "runtime/autograd/backward_call.h"

#include <gtest/gtest.h>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops/ops.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::autograd {
namespace {

using test::values_of;
using Floats = std::vector<float>;

class BackwardCallTest : public testing::Test {
 protected:
  std::unique_ptr<device::CheckDevice> device_ = test::checked_sim();
};

TEST_F(BackwardCallTest, HandsGradientsOverContiguous) {
  const Tensor x = test::random_leaf(*device_, {2, 3}, 1);
  backward(transpose(scale(x, 2), 0, 1),
           {.gradient = test::tensor_of(*device_, {3, 2}, {1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(values_of(gradient(x)), (Floats{2, 6, 10, 4, 8, 12}));
}

TEST_F(BackwardCallTest, KernelsWriteIntoTheBufferOfALeaf) {
  const Tensor x = test::random_tensor(*device_, {5, 8}, 1);
  const Tensor w = test::random_parameter(*device_, {4, 8}, 2);
  const Tensor buffer = Tensor::empty(*device_, {4, 8}, DType::kF32, Purpose::kGradients);
  set_gradient(w, buffer);
  overwrite_gradient(w);
  const Tensor y = linear(x, w, {});
  const Tensor g = test::random_tensor(*device_, {5, 4}, 3);
  const auto version = buffer.storage()->version()->value.load();
  backward(y, {.gradient = g});
  EXPECT_TRUE(gradient(w).is(buffer));
  EXPECT_GT(buffer.storage()->version()->value.load(), version);
}

TEST_F(BackwardCallTest, AWeightThatTwoOpsShareGetsBothGradients) {
  const Tensor x = test::random_tensor(*device_, {5, 4}, 1);
  const Tensor w = test::random_parameter(*device_, {4, 4}, 2);
  const Tensor g = test::random_tensor(*device_, {5, 4}, 3);
  const auto of_one_use = [&](bool first) {
    const Tensor frozen = detach(w);
    const Tensor y = linear(linear(x, first ? w : frozen, {}), first ? frozen : w, {});
    const Tensor inputs[] = {w};
    return values_of(gradients(y, inputs, {.gradient = g}).front());
  };
  const Floats a = of_one_use(true);
  const Floats b = of_one_use(false);
  backward(linear(linear(x, w, {}), w, {}), {.gradient = g});
  const Floats both = values_of(gradient(w));
  for (std::size_t i = 0; i < both.size(); ++i) EXPECT_NEAR(both[i], a[i] + b[i], 1e-5F);
}

TEST_F(BackwardCallTest, OneTensorMayBeTwoParametersOfAnOp) {
  const Tensor x = test::random_tensor(*device_, {5, 8}, 1);
  const Tensor g = test::random_tensor(*device_, {5, 8}, 3);
  const Tensor gamma = test::random_parameter(*device_, {8}, 2);
  const Tensor beta = test::random_parameter(*device_, {8}, 2);
  backward(layer_norm(x, gamma, beta), {.gradient = g});
  const Floats apart_gamma = values_of(gradient(gamma));
  const Floats apart_beta = values_of(gradient(beta));
  const Tensor shared = test::random_parameter(*device_, {8}, 2);
  backward(layer_norm(x, shared, shared), {.gradient = g});
  const Floats together = values_of(gradient(shared));
  for (std::size_t i = 0; i < together.size(); ++i) {
    EXPECT_NEAR(together[i], apart_gamma[i] + apart_beta[i], 1e-5F);
  }
}

TEST_F(BackwardCallTest, DestinationsOfOneKernelAreMadeAlike) {
  Destination fresh{test::tensor_of(*device_, {2}, {7, 7}), Into::kOverwrite, true};
  Destination old{test::tensor_of(*device_, {2}, {1, 2}), Into::kAdd, true};
  make_alike(fresh, old);
  EXPECT_EQ(fresh.into, Into::kAdd);
  EXPECT_EQ(old.into, Into::kAdd);
  EXPECT_EQ(values_of(fresh.tensor), (Floats{0, 0}));
  EXPECT_EQ(values_of(old.tensor), (Floats{1, 2}));
  Destination one{test::tensor_of(*device_, {1}, {7}), Into::kOverwrite, true};
  Destination none;
  make_alike(one, none);
  EXPECT_EQ(one.into, Into::kOverwrite);
  make_additive(one);
  EXPECT_EQ(one.into, Into::kAdd);
  EXPECT_EQ(values_of(one.tensor), Floats{0});
}

TEST_F(BackwardCallTest, MixesFreshAndOldBuffersOfOneOp) {
  const Tensor x = test::random_tensor(*device_, {5, 8}, 1);
  const Tensor g = test::random_tensor(*device_, {5, 4}, 3);
  const Tensor w = test::random_parameter(*device_, {4, 8}, 2);
  const Tensor b = test::random_parameter(*device_, {4}, 4);
  backward(linear(x, w, b), {.gradient = g});
  const Floats once_w = values_of(gradient(w));
  const Floats once_b = values_of(gradient(b));
  overwrite_gradient(w);  // But not b.
  backward(linear(x, w, b), {.gradient = g});
  EXPECT_EQ(values_of(gradient(w)), once_w);
  const Floats twice_b = values_of(gradient(b));
  for (std::size_t i = 0; i < once_b.size(); ++i) EXPECT_EQ(twice_b[i], 2 * once_b[i]);
}

}  // namespace
}  // namespace ebb::autograd
