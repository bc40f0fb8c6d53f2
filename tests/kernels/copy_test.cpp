#include <array>

#include "tests/kernels/kernel_fixture.h"

namespace ebb {
namespace {

EBB_KERNEL_TEST(Copy);

using Sizes = std::vector<std::int64_t>;

Sizes contiguous(const Sizes& shape) {
  Sizes strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

// Calls visit(x offset, y offset) for each element.
template <typename Visit>
void for_each(const Sizes& shape, const Sizes& x, const Sizes& y, const Visit& visit) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  for (std::int64_t index = 0; index < count; ++index) {
    std::int64_t rest = index;
    std::int64_t from = 0;
    std::int64_t to = 0;
    for (std::size_t d = shape.size(); d-- > 0;) {
      from += rest % shape[d] * x[d];
      to += rest % shape[d] * y[d];
      rest /= shape[d];
    }
    visit(static_cast<std::size_t>(from), static_cast<std::size_t>(to));
  }
}

template <typename T>
void expect_copies(const Kernels& kernels, DType dtype, const Sizes& shape, const Sizes& x,
                   const Sizes& y) {
  std::vector<T> source(4000);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<T>(i % 251 + 1);
  std::vector<T> expected(4000, 0);
  std::vector<T> got(4000, 0);
  for_each(shape, x, y,
           [&](std::size_t from, std::size_t to) { expected[to] = source[from]; });
  kernels.copy_strided(dtype, static_cast<int>(shape.size()), shape.data(), source.data(),
                       x.data(), got.data(), y.data(), nullptr);
  EXPECT_EQ(got, expected);
}

TEST_P(Copy, CopiesBetweenAnyTwoLayouts) {
  struct Case {
    Sizes shape, x, y;
  };
  const Case cases[] = {
      {{7, 9}, {9, 1}, {9, 1}},                         // Plain.
      {{7, 9}, {1, 7}, {9, 1}},                         // Transposed.
      {{3, 5, 7}, {70, 14, 2}, contiguous({3, 5, 7})},  // Every second column.
      {{4, 6, 5}, {0, 5, 1}, contiguous({4, 6, 5})},    // Expanded.
      {{6, 5}, {0, 0}, {5, 1}},                         // One element for all.
      {{2, 3, 4, 5}, {60, 5, 15, 1}, contiguous({2, 3, 4, 5})},
      {{1, 8, 1}, {999, 2, 999}, {999, 3, 999}},  // Sizes of 1, whatever the stride.
      {{}, {}, {}},                               // A scalar.
      {{70, 33}, {1, 70}, {40, 1}},               // More than a block each way.
  };
  for (const Case& c : cases) {
    expect_copies<float>(kernels(), DType::kF32, c.shape, c.x, c.y);
    expect_copies<std::uint16_t>(kernels(), DType::kBF16, c.shape, c.x, c.y);
    expect_copies<std::int64_t>(kernels(), DType::kI64, c.shape, c.x, c.y);
    expect_copies<std::uint8_t>(kernels(), DType::kU8, c.shape, c.x, c.y);
  }
}

TEST_P(Copy, CopiesNothingOfAnEmptyShape) {
  const Sizes shape = {3, 0};
  const Sizes strides = {1, 1};
  kernels().copy_strided(DType::kF32, 2, shape.data(), nullptr, strides.data(), nullptr,
                         strides.data(), nullptr);
}

TEST_P(Copy, RefusesMoreDimensionsThanItHas) {
  const std::array<std::int64_t, 9> ones = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  expect_invalid(
      [&] {
        kernels().copy_strided(DType::kF32, 9, ones.data(), nullptr, ones.data(), nullptr,
                               ones.data(), nullptr);
      },
      "9 dimensions");
}

}  // namespace
}  // namespace ebb
