#include "tests/kernels/kernel_fixture.h"

namespace ebb {
namespace {

EBB_KERNEL_TEST(Gelu);

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

// From far below to far above, with the sizes on both sides of any vector's.
Floats inputs(std::int64_t count) {
  Floats x = random_floats(count, 1, 3);
  for (std::size_t i = 0; i < x.size(); i += 5) x[i] *= 10;
  return x;
}

// The sigmoid's argument is of about x^3 / 14 and carries a few roundings, which its
// exponential turns into relative errors: |argument| <= 20 where the result still counts.
constexpr double kRoundings = 64;

TEST_P(Gelu, IsTheTanhFormAtAnySize) {
  for (const std::int64_t count : {0, 1, 3, 16, 17, 63, 64, 1000, 40000}) {
    const Floats x = inputs(count);
    Floats y(x.size());
    kernels().gelu_forward(DType::kF32, count, x.data(), y.data(), nullptr);
    Doubles expected(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) expected[i] = gelu(x[i]);
    expect_close(
        y, expected,
        [&](std::size_t i) {
          return kRoundings * kRounding * std::fabs(expected[i]) + 1e-9;
        },
        "y");
  }
}

TEST_P(Gelu, HasTheDerivativeThatFiniteDifferencesGive) {
  const std::int64_t count = 1003;
  const Floats x = inputs(count);
  const Floats dy = random_floats(count, 2);
  Floats dx(x.size());
  kernels().gelu_backward(DType::kF32, count, x.data(), dy.data(), dx.data(), nullptr);
  Doubles expected(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double step = 1e-4;
    expected[i] = dy[i] * (gelu(x[i] + step) - gelu(x[i] - step)) / (2 * step);
  }
  expect_close(
      dx, expected,
      [&](std::size_t i) { return 1e-7 + kRoundings * kRounding * std::fabs(dy[i]); },
      "dx");
}

TEST_P(Gelu, WorksInPlaceToTheSameBits) {
  const Floats x = inputs(777);
  Floats apart(x.size());
  kernels().gelu_forward(DType::kF32, 777, x.data(), apart.data(), nullptr);
  Floats in_place = x;
  kernels().gelu_forward(DType::kF32, 777, in_place.data(), in_place.data(), nullptr);
  EXPECT_TRUE(same_bits(apart, in_place));
  const Floats dy = random_floats(777, 3);
  kernels().gelu_backward(DType::kF32, 777, x.data(), dy.data(), apart.data(), nullptr);
  Floats gradient = dy;
  kernels().gelu_backward(DType::kF32, 777, x.data(), gradient.data(), gradient.data(),
                          nullptr);
  EXPECT_TRUE(same_bits(apart, gradient));
}

TEST_P(Gelu, PassesNaNOnAndStaysFiniteFarOut) {
  const Floats x = {NAN, 100, -100, 1e30F, -1e30F, 0};
  Floats y(6);
  Floats dx(6);
  const Floats dy(6, 1);
  kernels().gelu_forward(DType::kF32, 3, x.data(), y.data(), nullptr);
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 100);
  EXPECT_NEAR(y[2], 0, 1e-30);
  kernels().gelu_backward(DType::kF32, 3, x.data(), dy.data(), dx.data(), nullptr);
  EXPECT_TRUE(std::isnan(dx[0]));
  EXPECT_EQ(dx[1], 1);
  EXPECT_NEAR(dx[2], 0, 1e-30);
}

TEST_P(Gelu, RefusesOtherTypes) {
  expect_invalid(
      [&] { kernels().gelu_forward(DType::kBF16, 0, nullptr, nullptr, nullptr); },
      "f32 only so far");
}

}  // namespace
}  // namespace ebb
