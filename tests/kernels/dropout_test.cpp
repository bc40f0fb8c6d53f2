#include "tests/kernels/kernel_fixture.h"

namespace ebb {
namespace {

EBB_KERNEL_TEST(DropoutOp);

Dropout dropout(float probability) {
  return {.probability = probability,
          .key = {.seed = 0xFEDCBA9876543210U, .step = 2, .op = 9, .first_sample = 3}};
}

bool is_kept(const Dropout& d, std::int64_t sample, std::int64_t element) {
  const auto e = static_cast<std::uint64_t>(element);
  return random_block(d.key, static_cast<std::uint64_t>(sample), e / 4)[e % 4] >=
         drop_threshold(d.probability);
}

TEST_P(DropoutOp, KeepsWhatPhiloxNamesAndScalesIt) {
  for (const std::int64_t elements : {1, 3, 4, 61, 2048, 2049, 5003}) {
    const DropoutShape s{.samples = 3, .elements = elements};
    const Floats x = random_floats(3 * elements, 1);
    const Floats residual = random_floats(3 * elements, 2);
    const Dropout d = dropout(0.3F);
    Floats plain(x.size());
    Floats added(x.size());
    kernels().dropout_forward(s, d, x.data(), nullptr, plain.data(), nullptr);
    kernels().dropout_forward(s, d, x.data(), residual.data(), added.data(), nullptr);
    for (std::int64_t i = 0; i < 3 * elements; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double expected =
          is_kept(d, i / elements, i % elements) ? x[at] / (1 - double{d.probability}) : 0;
      ASSERT_NEAR(plain[at], expected, 4 * kRounding * std::fabs(expected));
      ASSERT_NEAR(added[at], expected + residual[at],
                  4 * kRounding * (std::fabs(expected) + 5));
    }
  }
}

TEST_P(DropoutOp, KeepsTheShareThatItSays) {
  const std::int64_t count = 200000;
  const Floats ones(static_cast<std::size_t>(count), 1);
  for (const float probability : {0.1F, 0.5F, 0.9F}) {
    Floats y(ones.size());
    kernels().dropout_forward({.samples = 2, .elements = count / 2}, dropout(probability),
                              ones.data(), nullptr, y.data(), nullptr);
    const auto dropped = static_cast<double>(std::count(y.begin(), y.end(), 0.0F));
    // Five standard deviations of a binomial distribution.
    EXPECT_NEAR(dropped / count, probability,
                5 * std::sqrt(probability * (1 - probability) / count));
  }
}

TEST_P(DropoutOp, DrawsTheSameMaskBackward) {
  const DropoutShape s{.samples = 2, .elements = 4099};
  const Floats ones(2 * 4099, 1);
  Floats forward(ones.size());
  Floats backward(ones.size());
  kernels().dropout_forward(s, dropout(0.4F), ones.data(), nullptr, forward.data(),
                            nullptr);
  kernels().dropout_backward(s, dropout(0.4F), ones.data(), backward.data(), nullptr);
  EXPECT_TRUE(same_bits(forward, backward));
}

TEST_P(DropoutOp, WorksInPlaceOnEitherInput) {
  const DropoutShape s{.samples = 1, .elements = 3001};
  const Floats x = random_floats(3001, 1);
  const Floats residual = random_floats(3001, 2);
  Floats expected(x.size());
  kernels().dropout_forward(s, dropout(0.4F), x.data(), residual.data(), expected.data(),
                            nullptr);
  Floats over_x = x;
  kernels().dropout_forward(s, dropout(0.4F), over_x.data(), residual.data(), over_x.data(),
                            nullptr);
  Floats over_residual = residual;
  kernels().dropout_forward(s, dropout(0.4F), x.data(), over_residual.data(),
                            over_residual.data(), nullptr);
  EXPECT_TRUE(same_bits(expected, over_x));
  EXPECT_TRUE(same_bits(expected, over_residual));
}

TEST_P(DropoutOp, OfProbabilityZeroIsACopyOrASum) {
  const DropoutShape s{.samples = 2, .elements = 37};
  const Floats x = random_floats(74, 1);
  Floats y(x.size());
  kernels().dropout_forward(s, dropout(0), x.data(), nullptr, y.data(), nullptr);
  EXPECT_TRUE(same_bits(x, y));
  kernels().dropout_forward(s, dropout(0), x.data(), x.data(), y.data(), nullptr);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], x[i] + x[i]);
}

TEST_P(DropoutOp, RefusesAProbabilityOfOne) {
  expect_invalid(
      [&] {
        kernels().dropout_backward({.samples = 1, .elements = 0},
                                   {.probability = 1, .key = {}}, nullptr, nullptr,
                                   nullptr);
      },
      "probability");
}

}  // namespace
}  // namespace ebb
