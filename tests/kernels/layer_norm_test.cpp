#include "tests/kernels/kernel_fixture.h"

namespace ebb {
namespace {

EBB_KERNEL_TEST(LayerNorm);

constexpr NormShape kShapes[] = {
    {.rows = 1, .columns = 1},     {.rows = 1, .columns = 37},
    {.rows = 9, .columns = 2},     {.rows = 40, .columns = 64},
    {.rows = 131, .columns = 100}, {.rows = 1100, .columns = 17},
};

struct Problem {
  explicit Problem(const NormShape& s)
      : x(random_floats(s.rows * s.columns, 1)),
        gamma(random_floats(s.columns, 2)),
        beta(random_floats(s.columns, 3)),
        dy(random_floats(s.rows * s.columns, 4)) {
    for (float& value : x) value += 3;  // A mean that is not 0.
  }

  Floats x, gamma, beta, dy;
};

struct Statistics {
  double mean = 0;
  double rstd = 0;
};

Statistics statistics(const NormShape& s, const double* x) {
  double mean = 0;
  for (std::int64_t i = 0; i < s.columns; ++i) mean += x[i];
  mean /= static_cast<double>(s.columns);
  double variance = 0;
  for (std::int64_t i = 0; i < s.columns; ++i) variance += (x[i] - mean) * (x[i] - mean);
  variance /= static_cast<double>(s.columns);
  return {mean, 1 / std::sqrt(variance + double{s.epsilon})};
}

Doubles forward(const NormShape& s, const Doubles& x, const Doubles& gamma,
                const Doubles& beta) {
  Doubles y(x.size());
  const auto columns = static_cast<std::size_t>(s.columns);
  for (std::size_t row = 0; row < static_cast<std::size_t>(s.rows); ++row) {
    const Statistics st = statistics(s, x.data() + row * columns);
    for (std::size_t i = 0; i < columns; ++i) {
      const std::size_t at = row * columns + i;
      y[at] = (x[at] - st.mean) * st.rstd * gamma[i] + beta[i];
    }
  }
  return y;
}

// Few columns make 1 / sqrt(variance) large, and with it every rounding of x - mean.
double tolerance(const NormShape& s) { return s.columns < 8 ? 2e-2 : 400 * kRounding * 20; }

TEST_P(LayerNorm, NormalisesRows) {
  for (const NormShape& s : kShapes) {
    const Problem p(s);
    Floats y(p.x.size());
    Floats mean(static_cast<std::size_t>(s.rows));
    Floats rstd(mean.size());
    kernels().layer_norm_forward(s, p.x.data(), p.gamma.data(), p.beta.data(), y.data(),
                                 mean.data(), rstd.data(), nullptr);
    expect_close(
        y, forward(s, doubles(p.x), doubles(p.gamma), doubles(p.beta)),
        [&](std::size_t) { return tolerance(s); }, "y");
    const Doubles x = doubles(p.x);
    for (std::size_t row = 0; row < mean.size(); ++row) {
      const Statistics st =
          statistics(s, x.data() + row * static_cast<std::size_t>(s.columns));
      EXPECT_NEAR(mean[row], st.mean, 1e-5);
      EXPECT_NEAR(rstd[row] / st.rstd, 1, tolerance(s));
    }
  }
}

struct Gradients {
  Floats dx, dgamma, dbeta;
};

Gradients backward(const Kernels& kernels, const NormShape& s, const Problem& p, Into into,
                   float before) {
  Floats y(p.x.size());
  Floats mean(static_cast<std::size_t>(s.rows));
  Floats rstd(mean.size());
  kernels.layer_norm_forward(s, p.x.data(), p.gamma.data(), p.beta.data(), y.data(),
                             mean.data(), rstd.data(), nullptr);
  Gradients g{Floats(p.x.size()), Floats(p.gamma.size(), before),
              Floats(p.gamma.size(), before)};
  Scratch scratch(kernels.layer_norm_backward_workspace(s));
  kernels.layer_norm_backward(s, p.x.data(), p.gamma.data(), mean.data(), rstd.data(),
                              p.dy.data(), g.dx.data(), into, g.dgamma.data(),
                              g.dbeta.data(), scratch, nullptr);
  return g;
}

TEST_P(LayerNorm, GradientsAgreeWithFiniteDifferences) {
  for (const NormShape& s :
       {NormShape{.rows = 1, .columns = 37}, NormShape{.rows = 5, .columns = 19},
        NormShape{.rows = 35, .columns = 16}}) {
    const Problem p(s);
    const Gradients g = backward(kernels(), s, p, Into::kOverwrite, NAN);
    const Doubles x = doubles(p.x);
    const Doubles gamma = doubles(p.gamma);
    const Doubles beta = doubles(p.beta);
    expect_close(
        g.dx,
        finite_differences(
            x, [&](const Doubles& at) { return dot(forward(s, at, gamma, beta), p.dy); }),
        rounding(200, 20), "dx");
    expect_close(
        g.dgamma,
        finite_differences(
            gamma, [&](const Doubles& at) { return dot(forward(s, x, at, beta), p.dy); }),
        rounding(200, 40), "dgamma");
    expect_close(
        g.dbeta,
        finite_differences(
            beta, [&](const Doubles& at) { return dot(forward(s, x, gamma, at), p.dy); }),
        rounding(100, 40), "dbeta");
  }
}

TEST_P(LayerNorm, AgreesWithTheFormulaOverManyBlocksOfRows) {
  const NormShape s{.rows = 1100, .columns = 17};
  const Problem p(s);
  const Gradients g = backward(kernels(), s, p, Into::kAdd, 1);
  Doubles dgamma(p.gamma.size(), 1);
  Doubles dbeta(p.gamma.size(), 1);
  const Doubles x = doubles(p.x);
  for (std::size_t row = 0; row < 1100; ++row) {
    const Statistics st = statistics(s, x.data() + row * 17);
    for (std::size_t i = 0; i < 17; ++i) {
      dgamma[i] += p.dy[row * 17 + i] * (x[row * 17 + i] - st.mean) * st.rstd;
      dbeta[i] += p.dy[row * 17 + i];
    }
  }
  expect_close(g.dgamma, dgamma, rounding(1100, 10), "dgamma");
  expect_close(g.dbeta, dbeta, rounding(1100, 10), "dbeta");
}

TEST_P(LayerNorm, GivesTheSameBitsForAnyThreadCount) {
  const NormShape s{.rows = 333, .columns = 100};
  const Problem p(s);
  const int before = set_cpu_threads(1);
  const Gradients one = backward(kernels(), s, p, Into::kOverwrite, 0);
  set_cpu_threads(3);
  const Gradients three = backward(kernels(), s, p, Into::kOverwrite, 0);
  set_cpu_threads(before);
  EXPECT_TRUE(same_bits(one.dx, three.dx));
  EXPECT_TRUE(same_bits(one.dgamma, three.dgamma));
  EXPECT_TRUE(same_bits(one.dbeta, three.dbeta));
}

TEST_P(LayerNorm, RefusesAWorkspaceThatIsTooSmall) {
  const NormShape s{.rows = 2, .columns = 2};
  const Problem p(s);
  Floats out(4);
  expect_invalid(
      [&] {
        kernels().layer_norm_backward(s, p.x.data(), p.gamma.data(), out.data(), out.data(),
                                      p.dy.data(), out.data(), Into::kAdd, out.data(),
                                      out.data(), {}, nullptr);
      },
      "workspace");
}

}  // namespace
}  // namespace ebb
