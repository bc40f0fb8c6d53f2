#include "tests/kernels/kernel_fixture.h"

namespace ebb {
namespace {

EBB_KERNEL_TEST(Elementwise);

constexpr std::int64_t kCounts[] = {0, 1, 7, 16, 33, 16384, 16385, 50001};

TEST_P(Elementwise, AddsMultipliesScalesAndFills) {
  for (const std::int64_t count : kCounts) {
    const Floats a = random_floats(count, 1);
    const Floats b = random_floats(count, 2);
    Floats sum(a.size());
    Floats product(a.size());
    Floats scaled(a.size());
    Floats twice(a.size());
    Floats filled(a.size());
    const float device_factor = 0.75F;
    kernels().add(DType::kF32, count, a.data(), b.data(), sum.data(), nullptr);
    kernels().multiply(DType::kF32, count, a.data(), b.data(), product.data(), nullptr);
    kernels().scale(DType::kF32, count, a.data(), 3, nullptr, scaled.data(), nullptr);
    kernels().scale(DType::kF32, count, a.data(), 2, &device_factor, twice.data(), nullptr);
    kernels().fill(DType::kF32, count, 7, filled.data(), nullptr);
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(sum[i], a[i] + b[i]);
      ASSERT_EQ(product[i], a[i] * b[i]);
      ASSERT_EQ(scaled[i], a[i] * 3);
      ASSERT_EQ(twice[i], a[i] * 1.5F);
      ASSERT_EQ(filled[i], 7);
    }
  }
}

TEST_P(Elementwise, WorksInPlace) {
  Floats a = random_floats(1003, 1);
  const Floats before = a;
  kernels().add(DType::kF32, 1003, a.data(), a.data(), a.data(), nullptr);
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], 2 * before[i]);
}

TEST_P(Elementwise, RefusesOtherTypesAndNegativeSizes) {
  expect_invalid([&] { kernels().fill(DType::kI32, 1, 0, nullptr, nullptr); }, "i32");
  expect_invalid(
      [&] { kernels().scale(DType::kF32, -1, nullptr, 1, nullptr, nullptr, nullptr); },
      "-1 elements");
}

}  // namespace
}  // namespace ebb
