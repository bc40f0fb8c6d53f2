#include "tests/kernels/attention_reference.h"

namespace ebb {
namespace {

EBB_KERNEL_TEST(AttentionForward);

// A score is a sum of head_size products of numbers of about 1, and its absolute error
// becomes a relative one of its probability; the output is a mean of values of up to 5,
// which dropout scales by up to 2.
double tolerance(const AttentionShape& s) {
  return kRounding * static_cast<double>(s.head_size + 16) * 3 * 10;
}

TEST_P(AttentionForward, AgreesWithTheDefinition) {
  for (const AttentionShape& s : kAttentionShapes) {
    for (const float probability : {0.0F, 0.1F, 0.5F}) {
      const Dropout dropout = attention_dropout(probability);
      const Floats qkv = attention_inputs(s, 1);
      const AttentionReference expected = attention_reference(s, dropout, doubles(qkv), {});
      const AttentionOutput got = attention_forward(kernels(), s, dropout, qkv);
      SCOPED_TRACE(s.seq);
      expect_close(
          got.out, expected.out, [&](std::size_t) { return tolerance(s); }, "out");
      expect_close(
          got.log_sum_exp, expected.log_sum_exp, [&](std::size_t) { return tolerance(s); },
          "log_sum_exp");
    }
  }
}

TEST_P(AttentionForward, StandsScoresThatNoExponentialCouldHold) {
  const AttentionShape s{.batch = 1, .seq = 130, .heads = 1, .kv_heads = 1, .head_size = 8};
  Floats qkv = attention_inputs(s, 2);
  for (std::size_t i = 0; i < qkv.size(); ++i) {
    if (i % 24 < 16) qkv[i] *= 30;  // Queries and keys: scores of up to a few thousand.
  }
  const AttentionOutput got = attention_forward(kernels(), s, {}, qkv);
  for (const float value : got.out) ASSERT_TRUE(std::isfinite(value));
  // The first query sees its own value only.
  for (std::size_t c = 0; c < 8; ++c) EXPECT_EQ(got.out[c], qkv[16 + c]);
}

TEST_P(AttentionForward, GivesTheSameBitsAgainAndForAnyThreadCountAndAddress) {
  const AttentionShape s{
      .batch = 2, .seq = 100, .heads = 3, .kv_heads = 3, .head_size = 16};
  const Dropout dropout = attention_dropout(0.1F);
  const Floats qkv = attention_inputs(s, 3);
  const int before = set_cpu_threads(1);
  const AttentionOutput one = attention_forward(kernels(), s, dropout, qkv);
  set_cpu_threads(3);
  const AttentionOutput three = attention_forward(kernels(), s, dropout, qkv);
  Floats moved(qkv.size() + 1);
  std::copy(qkv.begin(), qkv.end(), moved.begin() + 1);
  AttentionOutput odd{Floats(one.out.size()), Floats(one.log_sum_exp.size())};
  Scratch scratch(kernels().attention_forward_workspace(s));
  kernels().attention_forward(s, dropout, moved.data() + 1, odd.out.data(),
                              odd.log_sum_exp.data(), scratch, nullptr);
  set_cpu_threads(before);
  EXPECT_TRUE(same_bits(one.out, three.out));
  EXPECT_TRUE(same_bits(one.log_sum_exp, three.log_sum_exp));
  EXPECT_TRUE(same_bits(one.out, odd.out));
}

TEST_P(AttentionForward, TakesNoMemoryThatGrowsWithTheSquareOfTheSequence) {
  AttentionShape s{.batch = 1, .seq = 1024, .heads = 12, .kv_heads = 12, .head_size = 64};
  const std::size_t bytes = kernels().attention_forward_workspace(s);
  s.seq = 65536;
  EXPECT_EQ(kernels().attention_forward_workspace(s), bytes);
}

TEST_P(AttentionForward, RefusesHeadsThatKeyHeadsDoNotDivide) {
  expect_invalid(
      [&] {
        kernels().attention_forward_workspace(
            {.batch = 1, .seq = 1, .heads = 3, .kv_heads = 2, .head_size = 1});
      },
      "3 heads");
}

}  // namespace
}  // namespace ebb
