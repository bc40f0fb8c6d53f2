#include "tests/kernels/kernel_fixture.h"

namespace ebb {
namespace {

EBB_KERNEL_TEST(Reductions);

constexpr std::int64_t kCounts[] = {0, 1, 15, 64, 4096, 4097, 100003, 3000001};

TEST_P(Reductions, SumsWithTheErrorOfATree) {
  for (const std::int64_t count : kCounts) {
    const Floats x = random_floats(count, 1);
    double sum = 0;
    double squares = 0;
    double magnitude = 0;
    for (const float value : x) {
      sum += value;
      squares += double{value} * value;
      magnitude += std::fabs(value);
    }
    float got = NAN;
    kernels().sum(DType::kF32, count, x.data(), 0.5F, &got, nullptr);
    // A leaf of 4096 adds at most 64 numbers in a row, and its lanes by a tree.
    EXPECT_NEAR(got, 0.5 * sum, 70 * kRounding * magnitude);
    kernels().sum_of_squares(DType::kF32, count, x.data(), &got, nullptr);
    EXPECT_NEAR(got, squares, 70 * kRounding * squares);
  }
}

TEST_P(Reductions, LosesNothingWhereAPlainSumWould) {
  // 2^24 ones: a running f32 sum of more stands still.
  const Floats ones((1 << 24) + 1000, 1);
  float got = 0;
  kernels().sum(DType::kF32, (1 << 24) + 1000, ones.data(), 1, &got, nullptr);
  EXPECT_EQ(got, 16778216.0F);
}

TEST_P(Reductions, GiveTheSameBitsForAnyThreadCountAndAddress) {
  Floats x = random_floats(300001, 2);
  float results[4] = {};
  const int before = set_cpu_threads(1);
  kernels().sum(DType::kF32, 300000, x.data(), 1, &results[0], nullptr);
  set_cpu_threads(4);
  kernels().sum(DType::kF32, 300000, x.data(), 1, &results[1], nullptr);
  std::rotate(x.begin(), x.end() - 1, x.end());
  kernels().sum(DType::kF32, 300000, x.data() + 1, 1, &results[2], nullptr);
  set_cpu_threads(before);
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

// Bias gradients are column sums: many blocks of 256 rows, odd strips of columns.
TEST_P(Reductions, SumColumnsOverManyBlocksOfRows) {
  const LinearShape s{.rows = 1300, .in = 1, .out = 131};
  const Floats x(1300, 0);
  const Floats dy = random_floats(s.rows * s.out, 3);
  Floats dw(131);
  Floats db(131, 1);
  const int before = set_cpu_threads(1);
  kernels().linear_backward_weight(s, x.data(), dy.data(), Into::kAdd, dw.data(), db.data(),
                                   {}, nullptr);
  set_cpu_threads(3);
  Floats again(131, 1);
  kernels().linear_backward_weight(s, x.data(), dy.data(), Into::kAdd, dw.data(),
                                   again.data(), {}, nullptr);
  set_cpu_threads(before);
  EXPECT_TRUE(same_bits(db, again));
  Doubles expected(131, 1);
  for (std::size_t i = 0; i < dy.size(); ++i) expected[i % 131] += dy[i];
  // 256 rows in a row, then a tree; numbers of about 1.
  expect_close(db, expected, rounding(256 + 8, 130), "db");
}

TEST_P(Reductions, RefuseOtherTypes) {
  float out = 0;
  expect_invalid([&] { kernels().sum(DType::kBF16, 0, nullptr, 1, &out, nullptr); },
                 "bf16");
}

}  // namespace
}  // namespace ebb
