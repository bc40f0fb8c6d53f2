#include "kernels/cpu/inner_product.h"

#include <thread>

#include "tests/kernels/kernel_fixture.h"

namespace ebb::cpu {
namespace {

Floats run(const InnerProductShape& s) {
  const Floats x = random_floats(s.rows * s.in, 1);
  const Floats weight = random_floats(s.out * s.in, 2);
  const Floats bias = random_floats(s.out, 3);
  Floats y(static_cast<std::size_t>(s.rows * s.out));
  Scratch scratch(inner_product_workspace(s));
  inner_product(s, x.data(), weight.data(), s.bias ? bias.data() : nullptr, y.data(),
                scratch);
  return y;
}

TEST(InnerProduct, RemembersShapesAndForgetsTheOldest) {
  const InnerProductShape s{.rows = 9, .in = 33, .out = 5, .bias = true};
  const Floats first = run(s);
  EXPECT_TRUE(same_bits(first, run(s)));
  // More shapes than are kept.
  for (std::int64_t rows = 1; rows <= 300; ++rows) {
    inner_product_workspace({.rows = rows, .in = 2, .out = 2});
  }
  EXPECT_TRUE(same_bits(first, run(s)));
}

TEST(InnerProduct, GivesTheSameBitsFromAnotherThread) {
  const InnerProductShape s{.rows = 17, .in = 64, .out = 48};
  const Floats here = run(s);
  Floats there;
  std::thread([&] { there = run(s); }).join();
  EXPECT_TRUE(same_bits(here, there));
}

TEST(InnerProduct, GivesTheSameBitsWhenTheThreadCountComesBack) {
  const InnerProductShape s{.rows = 64, .in = 128, .out = 96, .bias = true};
  const Floats before = run(s);
  const int threads = set_cpu_threads(1);
  run(s);
  set_cpu_threads(threads);
  EXPECT_TRUE(same_bits(before, run(s)));
}

}  // namespace
}  // namespace ebb::cpu
