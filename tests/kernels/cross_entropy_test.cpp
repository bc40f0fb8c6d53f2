#include "tests/kernels/kernel_fixture.h"

namespace ebb {
namespace {

EBB_KERNEL_TEST(CrossEntropy);

double loss_of(const double* logits, std::int64_t vocabulary, std::int32_t target) {
  const double highest = *std::max_element(logits, logits + vocabulary);
  double total = 0;
  for (std::int64_t i = 0; i < vocabulary; ++i) total += std::exp(logits[i] - highest);
  return std::log(total) + highest - logits[target];
}

TEST_P(CrossEntropy, AddsEachRowsLossAndLeavesTheLogits) {
  for (const CrossEntropyShape& s : {CrossEntropyShape{.rows = 1, .vocabulary = 1},
                                     {.rows = 3, .vocabulary = 2},
                                     {.rows = 5, .vocabulary = 257},
                                     {.rows = 2, .vocabulary = 50257}}) {
    Floats logits = random_floats(s.rows * s.vocabulary, 1, 3);
    const Floats before = logits;
    std::vector<std::int32_t> targets;
    for (std::int64_t row = 0; row < s.rows; ++row) {
      targets.push_back(static_cast<std::int32_t>(row * 7919 % s.vocabulary));
    }
    Floats losses(targets.size(), 2);
    kernels().cross_entropy(s, logits.data(), targets.data(), losses.data(), false, 1,
                            nullptr);
    EXPECT_TRUE(same_bits(logits, before));
    const Doubles z = doubles(before);
    for (std::size_t row = 0; row < targets.size(); ++row) {
      const double expected =
          2 + loss_of(z.data() + row * static_cast<std::size_t>(s.vocabulary), s.vocabulary,
                      targets[row]);
      // Sums are exact to a few roundings; the result has one of its own.
      EXPECT_NEAR(losses[row], expected, 8 * kRounding * 20);
    }
  }
}

TEST_P(CrossEntropy, TurnsLogitsIntoTheirGradient) {
  const CrossEntropyShape s{.rows = 3, .vocabulary = 37};
  Floats logits = random_floats(3 * 37, 1, 2);
  const std::vector<std::int32_t> targets = {5, -1, 36};
  const double scale = 0.25;
  const Doubles expected = finite_differences(doubles(logits), [&](const Doubles& at) {
    return scale * (loss_of(at.data(), 37, 5) + loss_of(at.data() + 74, 37, 36));
  });
  Floats losses(3, 0);
  kernels().cross_entropy(s, logits.data(), targets.data(), losses.data(), true, 0.25F,
                          nullptr);
  expect_close(
      logits, expected, [](std::size_t) { return 1e-7; }, "gradient");
  for (std::size_t i = 37; i < 74; ++i) EXPECT_EQ(logits[i], 0);
  EXPECT_EQ(losses[1], 0);
}

TEST_P(CrossEntropy, LossIsTheSameWithAndWithoutTheGradient) {
  const CrossEntropyShape s{.rows = 4, .vocabulary = 5000};
  Floats logits = random_floats(4 * 5000, 1, 2);
  const std::vector<std::int32_t> targets = {1, 2, 3, 4};
  Floats without(4, 0);
  Floats with(4, 0);
  kernels().cross_entropy(s, logits.data(), targets.data(), without.data(), false, 1,
                          nullptr);
  kernels().cross_entropy(s, logits.data(), targets.data(), with.data(), true, 1, nullptr);
  EXPECT_TRUE(same_bits(with, without));
}

TEST_P(CrossEntropy, StandsLogitsThatNoExponentialCouldHold) {
  const CrossEntropyShape s{.rows = 1, .vocabulary = 3};
  Floats logits = {1000, -1000, 999};
  const std::int32_t target = 0;
  float loss = 0;
  kernels().cross_entropy(s, logits.data(), &target, &loss, true, 1, nullptr);
  EXPECT_NEAR(loss, std::log1p(std::exp(-1.0)), 1e-6);
  EXPECT_NEAR(logits[0], 1 / (1 + std::exp(-1.0)) - 1, 1e-6);
  EXPECT_EQ(logits[1], 0);
}

TEST_P(CrossEntropy, StandsLogitsThatAllLieFarBelowZero) {
  for (std::int64_t vocabulary = 1; vocabulary < 70; ++vocabulary) {
    Floats logits(static_cast<std::size_t>(vocabulary), -500);
    const std::int32_t target = 0;
    float loss = 0;
    kernels().cross_entropy({.rows = 1, .vocabulary = vocabulary}, logits.data(), &target,
                            &loss, false, 1, nullptr);
    EXPECT_NEAR(loss, std::log(static_cast<double>(vocabulary)), 1e-6);
  }
}

TEST_P(CrossEntropy, RefusesATargetOutsideTheVocabulary) {
  for (const std::int32_t target : {3, -2}) {
    Floats logits(3);
    float loss = 0;
    expect_invalid(
        [&] {
          kernels().cross_entropy({.rows = 1, .vocabulary = 3}, logits.data(), &target,
                                  &loss, false, 1, nullptr);
        },
        "vocabulary of 3");
  }
}

}  // namespace
}  // namespace ebb
