#include "tests/kernels/kernel_fixture.h"

namespace ebb {
namespace {

EBB_KERNEL_TEST(Embedding);

const std::vector<std::int32_t> kTokens = {3, 0, 3, 10, 3, 1, 0, 10};

constexpr EmbeddingShape shape(std::int64_t hidden) {
  return {.batch = 2, .seq = 4, .hidden = hidden, .vocabulary = 11};
}

TEST_P(Embedding, LooksUpTokensAndAddsPositions) {
  for (const std::int64_t hidden : {1, 17, 64, 130}) {
    const Floats table = random_floats(11 * hidden, 1);
    const Floats positions = random_floats(4 * hidden, 2);
    Floats out(static_cast<std::size_t>(8 * hidden));
    Floats bare(out.size());
    kernels().embedding_forward(shape(hidden), kTokens.data(), table.data(),
                                positions.data(), out.data(), nullptr);
    kernels().embedding_forward(shape(hidden), kTokens.data(), table.data(), nullptr,
                                bare.data(), nullptr);
    for (std::int64_t i = 0; i < 8 * hidden; ++i) {
      const std::int64_t place = i / hidden;
      const auto row = static_cast<std::size_t>(
          kTokens[static_cast<std::size_t>(place)] * hidden + i % hidden);
      const auto position = static_cast<std::size_t>(place % 4 * hidden + i % hidden);
      ASSERT_EQ(bare[static_cast<std::size_t>(i)], table[row]);
      ASSERT_EQ(out[static_cast<std::size_t>(i)], table[row] + positions[position]);
    }
  }
}

TEST_P(Embedding, AddsGradientsInTheOrderOfTheTokens) {
  for (const std::int64_t hidden : {1, 17, 64, 130}) {
    const Floats dout = random_floats(8 * hidden, 3);
    Floats table = random_floats(11 * hidden, 4);
    Floats positions = random_floats(4 * hidden, 5);
    Floats expected_table = table;
    Floats expected_positions = positions;
    for (std::int64_t i = 0; i < 8 * hidden; ++i) {
      const std::int64_t place = i / hidden;
      const auto token = kTokens[static_cast<std::size_t>(place)];
      const float g = dout[static_cast<std::size_t>(i)];
      expected_table[static_cast<std::size_t>(token * hidden + i % hidden)] += g;
      expected_positions[static_cast<std::size_t>(place % 4 * hidden + i % hidden)] += g;
    }
    Floats bare = table;
    kernels().embedding_backward(shape(hidden), kTokens.data(), dout.data(), table.data(),
                                 positions.data(), {}, nullptr);
    kernels().embedding_backward(shape(hidden), kTokens.data(), dout.data(), bare.data(),
                                 nullptr, {}, nullptr);
    EXPECT_TRUE(same_bits(table, expected_table));
    EXPECT_TRUE(same_bits(bare, expected_table));
    EXPECT_TRUE(same_bits(positions, expected_positions));
  }
}

TEST_P(Embedding, RefusesATokenOutsideTheVocabulary) {
  EXPECT_EQ(kernels().embedding_backward_workspace(shape(4)), 0U);
  for (const std::int32_t token : {-1, 11}) {
    std::vector<std::int32_t> tokens = kTokens;
    tokens[5] = token;
    Floats memory(100);
    expect_invalid(
        [&] {
          kernels().embedding_forward(shape(4), tokens.data(), memory.data(), nullptr,
                                      memory.data(), nullptr);
        },
        "at 5 is outside the vocabulary of 11");
    expect_invalid(
        [&] {
          kernels().embedding_backward(shape(4), tokens.data(), memory.data(),
                                       memory.data(), nullptr, {}, nullptr);
        },
        "at 5");
  }
}

}  // namespace
}  // namespace ebb
