#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops/ops.h"
#include "tests/support/gradient_check.h"
#include "tests/support/host_hooks.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::autograd {
namespace {

using test::values_of;
using testing::ElementsAre;
using Floats = std::vector<float>;

class OpsViewsTest : public testing::Test {
 protected:
  void expect(const test::TensorFunction& function, const tensor::Shape& shape) {
    test::expect_gradients(function, {test::random_leaf(*device_, shape, 1)});
  }

  std::unique_ptr<device::CheckDevice> device_ = test::guarded_sim();
};

TEST_F(OpsViewsTest, ShareTheStorage) {
  const Tensor x = test::random_leaf(*device_, {2, 6}, 1);
  EXPECT_EQ(view(x, {3, 4}).storage(), x.storage());
  EXPECT_EQ(transpose(x, 0, 1).storage(), x.storage());
  EXPECT_EQ(slice(x, 1, 0, 2).storage(), x.storage());
  EXPECT_EQ(expand(view(x, {1, 2, 6}), {4, 2, 6}).storage(), x.storage());
  EXPECT_TRUE(contiguous(x).is(x));
}

TEST_F(OpsViewsTest, GradientsAreRight) {
  expect([](auto in) { return view(in[0], {3, -1}); }, {2, 6});
  expect([](auto in) { return transpose(in[0], 0, 2); }, {2, 3, 4});
  expect([](auto in) { return slice(in[0], 1, 1, 4); }, {2, 6});
  expect([](auto in) { return slice(in[0], -1, 2, 2); }, {2, 6});
  expect([](auto in) { return contiguous(transpose(in[0], 0, 1)); }, {2, 6});
}

TEST_F(OpsViewsTest, GradientsOfExpandedTensorsAreSummed) {
  expect([](auto in) { return expand(in[0], {5, 3}); }, {3});
  expect([](auto in) { return expand(in[0], {3, 5}); }, {3, 1});
  expect([](auto in) { return expand(in[0], {2, 3, 4, 5}); }, {3, 1, 5});
  expect([](auto in) { return expand(in[0], {7}); }, {1});
}

TEST_F(OpsViewsTest, GradientsOfSlicesThatOverlapAreAdded) {
  expect([](auto in) { return add(slice(in[0], 0, 0, 3), slice(in[0], 0, 1, 4)); }, {4, 2});
}

TEST_F(OpsViewsTest, GradientsGoThroughHooks) {
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  expect(
      [](auto in) {
        const Tensor t = transpose(in[0], 0, 1);
        return multiply(slice(t, 0, 1, 3), slice(t, 0, 2, 4));
      },
      {3, 5});
}

TEST_F(OpsViewsTest, DifferentiateTwice) {
  const Tensor x = test::tensor_of(*device_, {2, 2}, {1, 2, 3, 4});
  set_requires_grad(x, true);
  const Tensor row = slice(x, 0, 1, 2);  // 3 4
  const Tensor square = multiply(expand(row, {2, 2}), transpose(x, 0, 1));
  const Tensor inputs[] = {x};
  // 3 (1) + 4 (3) + 3 (2) + 4 (4), with x = (a b; c d): c a + d c + c b + d^2
  EXPECT_EQ(values_of(sum(square)), Floats{37});
  const Tensor first = gradients(sum(square), inputs, {.create_graph = true}).front();
  EXPECT_EQ(values_of(contiguous(first)), (Floats{3, 3, 1 + 4 + 2, 3 + 8}));
  const Tensor second = gradients(sum(multiply(first, first)), inputs).front();
  // g = (c, c, a + b + d, c + 2 d): 2 times the Hessian times g.
  EXPECT_EQ(values_of(contiguous(second)),
            (Floats{2 * 7, 2 * 7, 2 * (3 + 3 + 11), 2 * (7 + 22)}));
}

TEST_F(OpsViewsTest, RefuseWhatDoesNotFit) {
  const Tensor x = test::random_leaf(*device_, {2, 6}, 1);
  EXPECT_THROW(view(x, {5}), Error);
  EXPECT_THROW(slice(x, 0, 1, 3), Error);
  EXPECT_THROW(transpose(x, 0, 2), Error);
  EXPECT_THROW(expand(x, {3, 6}), Error);
}

}  // namespace
}  // namespace ebb::autograd
