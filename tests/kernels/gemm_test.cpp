#include "kernels/cpu/gemm.h"

#include "tests/kernels/kernel_fixture.h"

namespace ebb::cpu {
namespace {

TEST(Gemm, MultipliesEveryTranspositionAndAdds) {
  const std::int64_t m = 5;
  const std::int64_t n = 7;
  const std::int64_t k = 3;
  const Floats a = random_floats(m * k, 1);
  const Floats b = random_floats(k * n, 2);
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const bool add : {false, true}) {
        Floats c(35, add ? 2 : NAN);
        gemm({m, n, k, ta, tb, add}, a.data(), b.data(), c.data());
        Doubles expected(35, add ? 2 : 0);
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t j = 0; j < n; ++j) {
            for (std::int64_t l = 0; l < k; ++l) {
              expected[static_cast<std::size_t>(i * n + j)] +=
                  double{a[static_cast<std::size_t>(ta ? l * m + i : i * k + l)]} *
                  b[static_cast<std::size_t>(tb ? j * k + l : l * n + j)];
            }
          }
        }
        expect_close(c, expected, rounding(8, 20), "c");
      }
    }
  }
}

TEST(Gemm, GivesTheSameBitsAgainAndAtAnyAddress) {
  const Floats a = random_floats(1 + 100 * 300, 1);
  const Floats b = random_floats(1 + 300 * 200, 2);
  const Floats moved_a(a.begin() + 1, a.end());
  const Floats moved_b(b.begin() + 1, b.end());
  Floats first(20000);
  Floats second(20000);
  gemm({.m = 100, .n = 200, .k = 300}, a.data() + 1, b.data() + 1, first.data());
  gemm({.m = 100, .n = 200, .k = 300}, moved_a.data(), moved_b.data(), second.data());
  EXPECT_TRUE(same_bits(first, second));
}

}  // namespace
}  // namespace ebb::cpu
