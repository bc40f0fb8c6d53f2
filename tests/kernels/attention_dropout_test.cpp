#include "tests/kernels/attention_reference.h"

namespace ebb {
namespace {

EBB_KERNEL_TEST(AttentionDropout);

// With values that are unit vectors, the outputs are the dropped probabilities themselves.
TEST_P(AttentionDropout, DropsExactlyTheProbabilitiesThatPhiloxNames) {
  for (const std::int64_t seq : {64, 68, 67, 96}) {
    const AttentionShape s{.batch = 2,
                           .seq = seq,
                           .heads = 2,
                           .kv_heads = 2,
                           .head_size = seq,
                           .causal = false};
    Floats qkv(static_cast<std::size_t>(s.batch * seq * 6 * seq), 0.0F);
    for (std::int64_t token = 0; token < s.batch * seq; ++token) {
      for (std::int64_t h = 0; h < 2; ++h) {
        qkv[static_cast<std::size_t>((token * 6 + 4 + h) * seq + token % seq)] = 1;
      }
    }
    const Dropout dropout = attention_dropout(0.25F);
    const AttentionOutput got = attention_forward(kernels(), s, dropout, qkv);
    std::int64_t kept = 0;
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t i = 0; i < seq; ++i) {
        for (std::int64_t h = 0; h < 2; ++h) {
          for (std::int64_t j = 0; j < seq; ++j) {
            const bool is_kept =
                got.out[static_cast<std::size_t>(((b * seq + i) * 2 + h) * seq + j)] != 0;
            ASSERT_EQ(is_kept, drop_factor(s, dropout, b, h, i, j) != 0);
            kept += is_kept ? 1 : 0;
          }
        }
      }
    }
    // Five standard deviations of a binomial distribution.
    const auto draws = static_cast<double>(s.batch * 2 * seq * seq);
    EXPECT_NEAR(static_cast<double>(kept) / draws, 0.75, 5 * std::sqrt(0.1875 / draws));
  }
}

TEST_P(AttentionDropout, DependsOnTheSampleNotOnItsPlaceInTheBatch) {
  const AttentionShape s{.batch = 1, .seq = 80, .heads = 1, .kv_heads = 1, .head_size = 8};
  AttentionShape two = s;
  two.batch = 2;
  const Floats both = attention_inputs(two, 1);
  const Floats second(both.begin() + static_cast<std::ptrdiff_t>(both.size() / 2),
                      both.end());
  Dropout dropout = attention_dropout(0.5F);
  const AttentionOutput together = attention_forward(kernels(), two, dropout, both);
  dropout.key.first_sample += 1;
  const AttentionOutput alone = attention_forward(kernels(), s, dropout, second);
  EXPECT_TRUE(std::equal(
      alone.out.begin(), alone.out.end(),
      together.out.begin() + static_cast<std::ptrdiff_t>(together.out.size() / 2)));
}

}  // namespace
}  // namespace ebb
