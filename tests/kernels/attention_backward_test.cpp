#include "tests/kernels/attention_reference.h"

namespace ebb {
namespace {

EBB_KERNEL_TEST(AttentionBackward);

Floats backward(const Kernels& kernels, const AttentionShape& s, const Dropout& dropout,
                const Floats& qkv, const Floats& dout) {
  const AttentionOutput forward = attention_forward(kernels, s, dropout, qkv);
  Floats dqkv(qkv.size(), NAN);
  Scratch scratch(kernels.attention_backward_workspace(s));
  kernels.attention_backward(s, dropout, qkv.data(), forward.out.data(),
                             forward.log_sum_exp.data(), dout.data(), dqkv.data(), scratch,
                             nullptr);
  return dqkv;
}

TEST_P(AttentionBackward, AgreesWithTheDefinition) {
  for (const AttentionShape& s : kAttentionShapes) {
    for (const float probability : {0.0F, 0.1F, 0.5F}) {
      const Dropout dropout = attention_dropout(probability);
      const Floats qkv = attention_inputs(s, 1);
      const Floats dout = random_floats(s.batch * s.seq * s.heads * s.head_size, 2);
      const AttentionReference expected =
          attention_reference(s, dropout, doubles(qkv), dout);
      SCOPED_TRACE(s.seq);
      // Gradients of probabilities are sums of head_size products; those of keys and values
      // sum over queries on top, with weights that sum to a few.
      expect_close(
          backward(kernels(), s, dropout, qkv, dout), expected.dqkv,
          rounding(static_cast<double>(s.head_size + 32) * 4, largest(expected.dqkv) + 5),
          "dqkv");
    }
  }
}

TEST_P(AttentionBackward, AgreesWithFiniteDifferences) {
  const std::pair<AttentionShape, float> cases[] = {
      {{.batch = 1, .seq = 6, .heads = 2, .kv_heads = 1, .head_size = 3}, 0.0F},
      {{.batch = 2, .seq = 7, .heads = 2, .kv_heads = 2, .head_size = 2}, 0.5F},
      {{.batch = 1, .seq = 66, .heads = 1, .kv_heads = 1, .head_size = 1}, 0.3F},
  };
  for (const auto& [s, probability] : cases) {
    const AttentionShape shape = s;
    const Dropout dropout = attention_dropout(probability);
    const Floats qkv = attention_inputs(shape, 1);
    const Floats dout =
        random_floats(shape.batch * shape.seq * shape.heads * shape.head_size, 2);
    const Doubles expected = finite_differences(doubles(qkv), [&](const Doubles& at) {
      return dot(attention_reference(shape, dropout, at, {}).out, dout);
    });
    expect_close(backward(kernels(), shape, dropout, qkv, dout), expected,
                 rounding(500, largest(expected) + 5), "dqkv");
  }
}

TEST_P(AttentionBackward, GivesTheSameBitsAgainAndForAnyThreadCount) {
  const AttentionShape s{
      .batch = 2, .seq = 100, .heads = 4, .kv_heads = 2, .head_size = 16};
  const Dropout dropout = attention_dropout(0.1F);
  const Floats qkv = attention_inputs(s, 3);
  const Floats dout = random_floats(2 * 100 * 4 * 16, 4);
  const int before = set_cpu_threads(1);
  const Floats one = backward(kernels(), s, dropout, qkv, dout);
  set_cpu_threads(3);
  const Floats three = backward(kernels(), s, dropout, qkv, dout);
  set_cpu_threads(before);
  EXPECT_TRUE(same_bits(one, three));
}

TEST_P(AttentionBackward, RefusesAWorkspaceThatIsTooSmall) {
  const AttentionShape s{.batch = 1, .seq = 1, .heads = 1, .kv_heads = 1, .head_size = 1};
  expect_invalid(
      [&] {
        kernels().attention_backward(s, {}, nullptr, nullptr, nullptr, nullptr, nullptr, {},
                                     nullptr);
      },
      "workspace");
}

}  // namespace
}  // namespace ebb
