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

class OpsEmbeddingTest : public testing::Test {
 protected:
  std::unique_ptr<device::CheckDevice> device_ = test::guarded_sim();
  Tensor tokens_ = test::tokens_of(*device_, {2, 3}, {1, 4, 1, 0, 1, 2});
  Tensor table_ = test::random_parameter(*device_, {5, 4}, 1);
  Tensor positions_ = test::random_parameter(*device_, {6, 4}, 2);
};

TEST_F(OpsEmbeddingTest, AddsRowsOfTokensAndPositions) {
  const std::vector<float> y = values_of(embedding(tokens_, table_, positions_));
  const std::vector<float> table = values_of(table_);
  const std::vector<float> positions = values_of(positions_);
  const std::size_t tokens[] = {1, 4, 1, 0, 1, 2};
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t c = 0; c < 4; ++c) {
      EXPECT_EQ(y[i * 4 + c], table[tokens[i] * 4 + c] + positions[(i % 3) * 4 + c]);
    }
  }
}

TEST_F(OpsEmbeddingTest, GradientsAreRight) {
  test::expect_gradients(
      [&](std::span<const Tensor> in) { return embedding(tokens_, in[0], in[1]); },
      {table_, positions_});
}

TEST_F(OpsEmbeddingTest, GradientsAreRightWithoutPositions) {
  test::expect_gradients(
      [&](std::span<const Tensor> in) { return embedding(tokens_, in[0], {}); }, {table_});
}

TEST_F(OpsEmbeddingTest, GradientsAreRightOfATableThatIsNoLeaf) {
  test::expect_gradients(
      [&](std::span<const Tensor> in) {
        return embedding(tokens_, scale(in[0], 2), scale(in[1], 3));
      },
      {table_, positions_});
}

TEST_F(OpsEmbeddingTest, GradientsAreRightOfPositionsAlone) {
  test::expect_gradients(
      [&](std::span<const Tensor> in) { return embedding(tokens_, in[0], in[1]); },
      {detach(table_), positions_});
}

TEST_F(OpsEmbeddingTest, RowsThatNobodyUsedGetZeroWhereTheGradientIsOverwritten) {
  const Tensor buffer = test::random_tensor(*device_, {5, 4}, 9, Purpose::kGradients);
  set_gradient(table_, buffer);
  overwrite_gradient(table_);
  backward(sum(embedding(tokens_, table_, {})));
  const std::vector<float> values = values_of(buffer);
  for (std::size_t c = 0; c < 4; ++c) {
    EXPECT_EQ(values[1 * 4 + c], 3);
    EXPECT_EQ(values[3 * 4 + c], 0);
  }
}

TEST_F(OpsEmbeddingTest, ATokenOutsideOfTheVocabularyIsAnError) {
  const Tensor bad = test::tokens_of(*device_, {1, 1}, {5});
  const Tensor y = embedding(bad, table_, {});
  EXPECT_THROW(device_->synchronize(), Error);
}

TEST_F(OpsEmbeddingTest, RefusesShapesThatDoNotFit) {
  const Tensor few = test::random_tensor(*device_, {2, 4}, 1);
  EXPECT_THROW(embedding(tokens_, table_, few), Error);
  EXPECT_THROW(embedding(tokens_, table_, test::random_tensor(*device_, {6, 3}, 1)), Error);
  EXPECT_THROW(embedding(tokens_.view({6}), table_, {}), Error);
  EXPECT_THROW(embedding(few, table_, {}), Error);
}

}  // namespace
}  // namespace ebb::autograd
