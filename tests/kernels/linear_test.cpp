#include "tests/kernels/kernel_fixture.h"

namespace ebb {
namespace {

EBB_KERNEL_TEST(Linear);

constexpr LinearShape kShapes[] = {
    {.rows = 1, .in = 1, .out = 1},    {.rows = 1, .in = 9, .out = 5},
    {.rows = 7, .in = 1, .out = 3},    {.rows = 5, .in = 6, .out = 1},
    {.rows = 33, .in = 65, .out = 17}, {.rows = 300, .in = 48, .out = 131},
};

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

struct Problem {
  explicit Problem(const LinearShape& s)
      : x(random_floats(s.rows * s.in, 1)),
        weight(random_floats(s.out * s.in, 2)),
        bias(random_floats(s.out, 3)),
        dy(random_floats(s.rows * s.out, 4)) {}

  Floats x, weight, bias, dy;
};

// sum[i, j] = sum over k of a(i, k) b(k, j), and the tolerance: k + 2 roundings of the sum
// of the magnitudes.
template <typename A, typename B>
void product(std::int64_t m, std::int64_t n, std::int64_t k, const A& a, const B& b,
             Doubles& sums, Doubles& tolerances) {
  sums.assign(static_cast<std::size_t>(m * n), 0);
  tolerances = sums;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const auto at = static_cast<std::size_t>(i * n + j);
      for (std::int64_t l = 0; l < k; ++l) {
        const double term = double{a(i, l)} * double{b(l, j)};
        sums[at] += term;
        tolerances[at] += std::fabs(term);
      }
      tolerances[at] = (tolerances[at] + 10) * static_cast<double>(k + 2) * kRounding;
    }
  }
}

auto at(const Floats& matrix, std::int64_t columns) {
  return [&matrix, columns](std::int64_t i, std::int64_t j) {
    return matrix[static_cast<std::size_t>(i * columns + j)];
  };
}

auto transposed(const Floats& matrix, std::int64_t columns) {
  return [&matrix, columns](std::int64_t i, std::int64_t j) {
    return matrix[static_cast<std::size_t>(j * columns + i)];
  };
}

TEST_P(Linear, MultipliesWithAndWithoutBiasAndGelu) {
  for (const LinearShape& s : kShapes) {
    const Problem p(s);
    Doubles plain;
    Doubles tolerance;
    product(s.rows, s.out, s.in, at(p.x, s.in), transposed(p.weight, s.in), plain,
            tolerance);
    for (const bool bias : {false, true}) {
      for (const bool activated : {false, true}) {
        Doubles expected = plain;
        for (std::size_t i = 0; i < expected.size(); ++i) {
          if (bias) expected[i] += p.bias[i % p.bias.size()];
          if (activated) expected[i] = gelu(expected[i]);
        }
        Floats y(expected.size(), NAN);
        Scratch scratch(kernels().linear_forward_workspace(s));
        kernels().linear_forward(s, p.x.data(), p.weight.data(),
                                 bias ? p.bias.data() : nullptr, activated, y.data(),
                                 scratch, nullptr);
        // GELU's slope is below 1.13, and its own error that of gelu_test.
        expect_close(
            y, expected,
            [&](std::size_t i) {
              return activated ? 1.13 * tolerance[i] +
                                     64 * kRounding * std::fabs(expected[i]) + 1e-9
                               : tolerance[i];
            },
            "y");
      }
    }
  }
}

TEST_P(Linear, GivesTheBitsOfTheTwoOpsWhereItAppliesGelu) {
  const LinearShape s{.rows = 50, .in = 40, .out = 60};
  const Problem p(s);
  Floats together(50 * 60);
  Floats apart(together.size());
  Scratch scratch(kernels().linear_forward_workspace(s));
  kernels().linear_forward(s, p.x.data(), p.weight.data(), p.bias.data(), true,
                           together.data(), scratch, nullptr);
  kernels().linear_forward(s, p.x.data(), p.weight.data(), p.bias.data(), false,
                           apart.data(), scratch, nullptr);
  kernels().gelu_forward(DType::kF32, 50 * 60, apart.data(), apart.data(), nullptr);
  EXPECT_TRUE(same_bits(together, apart));
}

TEST_P(Linear, GivesTheGradientOfItsInput) {
  for (const LinearShape& s : kShapes) {
    const Problem p(s);
    Doubles expected;
    Doubles tolerance;
    product(s.rows, s.in, s.out, at(p.dy, s.out), at(p.weight, s.in), expected, tolerance);
    Floats dx(expected.size(), NAN);
    Scratch scratch(kernels().linear_backward_input_workspace(s));
    kernels().linear_backward_input(s, p.dy.data(), p.weight.data(), dx.data(), scratch,
                                    nullptr);
    expect_close(
        dx, expected, [&](std::size_t i) { return tolerance[i]; }, "dx");
  }
}

TEST_P(Linear, GivesTheGradientsOfItsParametersOrAddsThem) {
  for (const LinearShape& s : kShapes) {
    const Problem p(s);
    Doubles dw;
    Doubles dw_tolerance;
    product(s.out, s.in, s.rows, transposed(p.dy, s.out), at(p.x, s.in), dw, dw_tolerance);
    Doubles db;
    Doubles db_tolerance;
    product(
        1, s.out, s.rows, [](auto, auto) { return 1.0F; }, at(p.dy, s.out), db,
        db_tolerance);
    const Floats before = random_floats(s.out * s.in, 5);
    for (const Into into : {Into::kOverwrite, Into::kAdd}) {
      const bool add = into == Into::kAdd;
      Floats got_dw = add ? before : Floats(dw.size(), NAN);
      Floats got_db = add ? Floats(db.size(), 2) : Floats(db.size(), NAN);
      Scratch scratch(kernels().linear_backward_weight_workspace(s));
      kernels().linear_backward_weight(s, p.x.data(), p.dy.data(), into, got_dw.data(),
                                       got_db.data(), scratch, nullptr);
      Doubles expected_dw = dw;
      Doubles expected_db = db;
      for (std::size_t i = 0; add && i < dw.size(); ++i) expected_dw[i] += before[i];
      for (std::size_t i = 0; add && i < db.size(); ++i) expected_db[i] += 2;
      expect_close(
          got_dw, expected_dw, [&](std::size_t i) { return dw_tolerance[i]; }, "dw");
      expect_close(
          got_db, expected_db, [&](std::size_t i) { return db_tolerance[i]; }, "db");
    }
    Floats alone(dw.size());
    kernels().linear_backward_weight(s, p.x.data(), p.dy.data(), Into::kOverwrite,
                                     alone.data(), nullptr, {}, nullptr);
    expect_close(
        alone, dw, [&](std::size_t i) { return dw_tolerance[i]; }, "dw alone");
  }
}

TEST_P(Linear, GradientsAgreeWithFiniteDifferences) {
  const LinearShape s{.rows = 3, .in = 4, .out = 5};
  const Problem p(s);
  // The loss is dy . y, so its gradients are what backward gives for dy.
  const auto loss = [&](const Doubles& x, const Doubles& w) {
    double sum = 0;
    for (std::int64_t r = 0; r < s.rows; ++r) {
      for (std::int64_t o = 0; o < s.out; ++o) {
        double y = p.bias[static_cast<std::size_t>(o)];
        for (std::int64_t i = 0; i < s.in; ++i) {
          y += x[static_cast<std::size_t>(r * s.in + i)] *
               w[static_cast<std::size_t>(o * s.in + i)];
        }
        sum += y * p.dy[static_cast<std::size_t>(r * s.out + o)];
      }
    }
    return sum;
  };
  Floats dx(p.x.size());
  Floats dw(p.weight.size());
  kernels().linear_backward_input(s, p.dy.data(), p.weight.data(), dx.data(), {}, nullptr);
  kernels().linear_backward_weight(s, p.x.data(), p.dy.data(), Into::kOverwrite, dw.data(),
                                   nullptr, {}, nullptr);
  const Doubles w = doubles(p.weight);
  const Doubles x = doubles(p.x);
  expect_close(
      dx, finite_differences(x, [&](const Doubles& at) { return loss(at, w); }),
      [](std::size_t) { return 1e-5; }, "dx");
  expect_close(
      dw, finite_differences(w, [&](const Doubles& at) { return loss(x, at); }),
      [](std::size_t) { return 1e-5; }, "dw");
}

TEST_P(Linear, SaysHowMuchScratchAHugeLayerTakesWithoutTakingIt) {
  const LinearShape s{.rows = 65536, .in = 8192, .out = 128256};
  EXPECT_LT(kernels().linear_forward_workspace(s), std::size_t{1} << 30);
  EXPECT_LT(kernels().linear_backward_input_workspace(s), std::size_t{1} << 30);
  EXPECT_LT(kernels().linear_backward_weight_workspace(s), std::size_t{1} << 30);
}

TEST_P(Linear, RefusesShapesThatAreNone) {
  expect_invalid(
      [&] { kernels().linear_forward_workspace({.rows = 0, .in = 1, .out = 1}); },
      "rows is 0");
  expect_invalid(
      [&] {
        kernels().linear_backward_input_workspace(
            {.dtype = DType::kBF16, .rows = 1, .in = 1, .out = 1});
      },
      "bf16");
}

}  // namespace
}  // namespace ebb
