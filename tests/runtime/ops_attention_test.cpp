#include <cmath>

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

class OpsAttentionTest : public testing::Test {
 protected:
  std::unique_ptr<device::CheckDevice> device_ = test::guarded_sim();
};

// Softmax of q k^T / sqrt(d) times v, with all of it written out.
std::vector<double> reference(const std::vector<float>& qkv, std::size_t batch,
                              std::size_t seq, std::size_t heads, std::size_t kv_heads,
                              std::size_t d, bool causal) {
  const std::size_t width = (heads + 2 * kv_heads) * d;
  std::vector<double> out(batch * seq * heads * d, 0);
  const auto at = [&](std::size_t b, std::size_t t, std::size_t column) {
    return static_cast<double>(qkv[(b * seq + t) * width + column]);
  };
  for (std::size_t b = 0; b < batch; ++b) {
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t group = h / (heads / kv_heads);
      for (std::size_t t = 0; t < seq; ++t) {
        const std::size_t last = causal ? t + 1 : seq;
        std::vector<double> p(last);
        double total = 0;
        for (std::size_t s = 0; s < last; ++s) {
          double score = 0;
          for (std::size_t i = 0; i < d; ++i) {
            score += at(b, t, h * d + i) * at(b, s, (heads + group) * d + i);
          }
          p[s] = std::exp(score / std::sqrt(static_cast<double>(d)));
          total += p[s];
        }
        for (std::size_t s = 0; s < last; ++s) {
          for (std::size_t i = 0; i < d; ++i) {
            out[(b * seq + t) * heads * d + h * d + i] +=
                p[s] / total * at(b, s, (heads + kv_heads + group) * d + i);
          }
        }
      }
    }
  }
  return out;
}

TEST_F(OpsAttentionTest, IsTheSoftmaxOfTheScores) {
  for (const bool causal : {true, false}) {
    for (const std::int64_t kv_heads : {2, 1}) {
      const Tensor qkv = test::random_tensor(*device_, {2, 5, (2 + 2 * kv_heads) * 4}, 1);
      const Tensor out = attention(qkv, 2, kv_heads, causal, 0);
      EXPECT_THAT(out.shape(), ElementsAre(2, 5, 8));
      const std::vector<double> expected =
          reference(values_of(qkv), 2, 5, 2, static_cast<std::size_t>(kv_heads), 4, causal);
      const std::vector<float> values = values_of(out);
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_NEAR(values[i], expected[i], 1e-5) << i;
      }
    }
  }
}

TEST_F(OpsAttentionTest, GradientsAreRight) {
  for (const bool causal : {true, false}) {
    test::expect_gradients(
        [&](std::span<const Tensor> in) { return attention(in[0], 2, 1, causal, 0); },
        {test::random_leaf(*device_, {2, 4, 16}, 1)});
  }
}

TEST_F(OpsAttentionTest, GradientsAreRightWithDropout) {
  test::expect_gradients(
      [](std::span<const Tensor> in) {
        set_random({.seed = 4});
        return attention(in[0], 2, 2, true, 0.4F);
      },
      {test::random_leaf(*device_, {2, 4, 24}, 1)});
}

TEST_F(OpsAttentionTest, DropsOnlyInTraining) {
  const Tensor qkv = test::random_tensor(*device_, {1, 6, 12}, 1);
  const std::vector<float> kept = values_of(attention(qkv, 1, 1, true, 0));
  set_random({.seed = 4});
  const std::vector<float> dropped = values_of(attention(qkv, 1, 1, true, 0.5F));
  EXPECT_NE(dropped, kept);
  set_random({.seed = 4});
  EXPECT_EQ(values_of(attention(qkv, 1, 1, true, 0.5F)), dropped);
  EXPECT_NE(values_of(attention(qkv, 1, 1, true, 0.5F)), dropped) << "the next op's";
  const TrainingScope evaluate(false);
  EXPECT_EQ(values_of(attention(qkv, 1, 1, true, 0.5F)), kept);
}

TEST_F(OpsAttentionTest, SavesNoMatrixOfScores) {
  constexpr std::int64_t kSeq = 64;
  test::HostHooks hooks(/*keep=*/true);
  const HooksScope scope(&hooks);
  const Tensor qkv = test::random_leaf(*device_, {1, kSeq, 12}, 1);
  device_->synchronize();
  const std::size_t before = device_->memory().figures().lent.total();
  const Tensor out = attention(qkv, 1, 1, true, 0);
  // The output and the log-sum-exps.
  EXPECT_LE(device_->memory().figures().lent.total() - before, kSeq * (4 + 1) * 4 + 512U);
}

TEST_F(OpsAttentionTest, GivesTheSameBitsThroughHooks) {
  const Tensor qkv = test::random_leaf(*device_, {2, 5, 24}, 1);
  const auto run = [&] {
    set_random({.seed = 4});
    backward(sum(attention(qkv, 2, 2, true, 0.2F)));
    const std::vector<float> values = values_of(gradient(qkv));
    set_gradient(qkv, {});
    return values;
  };
  const std::vector<float> expected = run();
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  EXPECT_EQ(run(), expected);
  EXPECT_EQ(hooks.log().packed.size(), 3U);
}

TEST_F(OpsAttentionTest, RefusesShapesThatDoNotFit) {
  const Tensor qkv = test::random_tensor(*device_, {2, 5, 24}, 1);
  EXPECT_THROW(attention(qkv, 5, 5, true, 0), Error);
  EXPECT_THROW(attention(qkv, 0, 0, true, 0), Error);
  EXPECT_THROW(attention(qkv, 3, 2, true, 0), Error);
  EXPECT_THROW(attention(qkv, 2, 2, true, 1), Error);
  EXPECT_THROW(attention(qkv.view({10, 24}), 2, 2, true, 0), Error);
}

}  // namespace
}  // namespace ebb::autograd
