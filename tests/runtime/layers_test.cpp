#include "runtime/nn/layers.h"

#include <gtest/gtest.h>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops/ops.h"
#include "tests/support/gradient_check.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::nn {
namespace {

using test::values_of;

class LayersTest : public testing::Test {
 protected:
  static constexpr std::int64_t kHidden = 8;

  Linear linear(std::int64_t in, std::int64_t out, std::uint64_t seed) {
    return {test::random_parameter(*device_, {out, in}, seed),
            test::random_parameter(*device_, {out}, seed + 1)};
  }
  LayerNorm norm(std::uint64_t seed, std::int64_t hidden = kHidden) {
    return {test::random_parameter(*device_, {hidden}, seed),
            test::random_parameter(*device_, {hidden}, seed + 1)};
  }
  Block block(float dropout, std::int64_t hidden = kHidden) {
    return {dropout,
            norm(1, hidden),
            {2, dropout, linear(hidden, 3 * hidden, 3), linear(hidden, hidden, 5)},
            norm(7, hidden),
            {linear(hidden, 4 * hidden, 9), linear(4 * hidden, hidden, 11)}};
  }

  std::unique_ptr<device::CheckDevice> device_ = test::guarded_sim();
};

TEST_F(LayersTest, AreTheirOps) {
  const Tensor x = test::random_tensor(*device_, {1, 2, kHidden}, 20);
  const Linear l = linear(kHidden, 4, 1);
  EXPECT_EQ(values_of(l(x)), values_of(autograd::linear(x, l.weight, l.bias)));
  EXPECT_EQ(values_of(l.gelu(x)), values_of(autograd::linear_gelu(x, l.weight, l.bias)));
  const LayerNorm n = norm(1);
  EXPECT_EQ(values_of(n(x)), values_of(autograd::layer_norm(x, n.weight, n.bias)));
  const Tensor tokens = test::tokens_of(*device_, {1, 2}, {1, 0});
  const Embedding e{test::random_parameter(*device_, {3, 4}, 1), {}};
  EXPECT_EQ(values_of(e(tokens)), values_of(autograd::embedding(tokens, e.table, {})));
}

TEST_F(LayersTest, ABlockIsPreNormWithTwoResiduals) {
  const Tensor x = test::random_tensor(*device_, {1, 3, kHidden}, 20);
  const Block b = block(0);
  const Tensor middle = autograd::add(b.attn(b.ln_1(x)), x);
  const Tensor y = autograd::add(b.mlp(b.ln_2(middle)), middle);
  EXPECT_EQ(values_of(b(x)), values_of(y));
}

TEST_F(LayersTest, GradientsOfABlockAreRight) {
  const Block b = block(0.2F);
  test::expect_gradients(
      [&](std::span<const Tensor> in) {
        autograd::set_random({.seed = 3});
        Block moved = b;
        moved.mlp.c_fc.bias = in[1];
        moved.attn.c_proj.bias = in[2];
        return moved(in[0]);
      },
      {test::random_leaf(*device_, {1, 2, kHidden}, 20), b.mlp.c_fc.bias,
       b.attn.c_proj.bias});
}

// The widest moment without gradients is the end of the MLP: the residual, the norm's
// result, four times the width, and the output; a half is for means and the like.
TEST_F(LayersTest, ABlockWithoutGradientsLetsGoOfWhatItIsDoneWith) {
  constexpr std::int64_t kWide = 64;
  const Block b = block(0, kWide);
  const Tensor x = test::random_tensor(*device_, {1, 512, kWide}, 20);
  device_->synchronize();
  // Reserved, because live bytes count to the last use, whoever still holds them.
  const std::size_t before = device_->memory().figures().reserved_bytes;
  {
    const autograd::NoGrad no_grad;
    b(x);
    device_->synchronize();
  }
  const std::size_t more = device_->memory().figures().peak_reserved_bytes - before;
  EXPECT_LE(more, x.bytes() * 15 / 2);
}

}  // namespace
}  // namespace ebb::nn
