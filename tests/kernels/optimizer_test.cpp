#include "tests/kernels/kernel_fixture.h"

namespace ebb {
namespace {

EBB_KERNEL_TEST(Optimizer);

TEST_P(Optimizer, TakesTheStepsOfAdamW) {
  for (const std::int64_t count : {1, 19, 16385}) {
    Floats p = random_floats(count, 1);
    Floats m(p.size(), 0);
    Floats v(p.size(), 0);
    Doubles expected_p = doubles(p);
    Doubles expected_m(p.size(), 0);
    Doubles expected_v(p.size(), 0);
    AdamW o{.learning_rate = 0.01F, .weight_decay = 0.1F};
    const float factor = 0.5F;
    for (o.step = 1; o.step <= 5; ++o.step) {
      const Floats g = random_floats(count, static_cast<std::uint32_t>(10 + o.step));
      kernels().adamw(DType::kF32, count, o, p.data(), g.data(), &factor, m.data(),
                      v.data(), nullptr, nullptr);
      for (std::size_t i = 0; i < g.size(); ++i) {
        const double gi = 0.5 * g[i];
        expected_m[i] = o.beta1 * expected_m[i] + (1 - double{o.beta1}) * gi;
        expected_v[i] = o.beta2 * expected_v[i] + (1 - double{o.beta2}) * gi * gi;
        const double m_hat =
            expected_m[i] / (1 - std::pow(double{o.beta1}, static_cast<double>(o.step)));
        const double v_hat =
            expected_v[i] / (1 - std::pow(double{o.beta2}, static_cast<double>(o.step)));
        expected_p[i] -= o.learning_rate * (m_hat / (std::sqrt(v_hat) + o.epsilon) +
                                            o.weight_decay * expected_p[i]);
      }
    }
    // 1 - beta2 in f32 is off by up to a rounding of 1, which is 20 of its own.
    expect_close(m, expected_m, rounding(60, 2), "m");
    expect_close(v, expected_v, rounding(60, 5), "v");
    expect_close(p, expected_p, rounding(60, 5), "p");
  }
}

TEST_P(Optimizer, TreatsNoFactorAsOne) {
  Floats a = {1, 2, 3};
  Floats b = a;
  const Floats g = {0.1F, -0.2F, 0.3F};
  Floats m(3, 0);
  Floats v(3, 0);
  Floats m2(3, 0);
  Floats v2(3, 0);
  const float one = 1;
  const AdamW o{.learning_rate = 0.1F};
  kernels().adamw(DType::kF32, 3, o, a.data(), g.data(), nullptr, m.data(), v.data(),
                  nullptr, nullptr);
  kernels().adamw(DType::kF32, 3, o, b.data(), g.data(), &one, m2.data(), v2.data(),
                  nullptr, nullptr);
  EXPECT_TRUE(same_bits(a, b));
}

TEST_P(Optimizer, RefusesStepZeroAndAMasterCopy) {
  float x = 0;
  expect_invalid(
      [&] {
        kernels().adamw(DType::kF32, 1, {.step = 0}, &x, &x, nullptr, &x, &x, nullptr,
                        nullptr);
      },
      "step is 0");
  expect_invalid(
      [&] { kernels().adamw(DType::kF32, 1, {}, &x, &x, nullptr, &x, &x, &x, nullptr); },
      "master");
}

TEST_P(Optimizer, ClipsOnlyNormsAboveTheLimit) {
  const Floats squares = {9, 16};
  float norm = 0;
  float factor = 0;
  kernels().clip_factor(2, squares.data(), 1, &norm, &factor, nullptr);
  EXPECT_EQ(norm, 5);
  EXPECT_NEAR(factor, 0.2, 1e-6);
  kernels().clip_factor(2, squares.data(), 10, &norm, &factor, nullptr);
  EXPECT_EQ(factor, 1);
  kernels().clip_factor(0, nullptr, 10, &norm, &factor, nullptr);
  EXPECT_EQ(norm, 0);
  EXPECT_EQ(factor, 1);
}

}  // namespace
}  // namespace ebb
