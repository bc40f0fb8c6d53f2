#include "runtime/nn/initialize.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "allocator/error.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::nn {
namespace {

using test::values_of;

TEST(Initialize, IsNormal) {
  const auto device = test::checked_sim();
  constexpr std::int64_t kCount = 100'003;
  const Tensor tensor = Tensor::empty(*device, {kCount}, DType::kF32);
  set_normal(tensor, 0.5F, 1, 0);
  double sum = 0;
  double square = 0;
  int beyond_two = 0;
  for (const float value : values_of(tensor)) {
    sum += static_cast<double>(value);
    square += static_cast<double>(value) * static_cast<double>(value);
    if (std::fabs(value) > 1) ++beyond_two;
  }
  // Five standard errors of each.
  const double n = static_cast<double>(kCount);
  EXPECT_NEAR(sum / n, 0, 5 * 0.5 / std::sqrt(n));
  EXPECT_NEAR(square / n, 0.25, 5 * 0.25 * std::sqrt(2 / n));
  EXPECT_NEAR(beyond_two / n, 0.0455, 5 * std::sqrt(0.0455 / n));
}

TEST(Initialize, DependsOnSeedAndParameterAlone) {
  const auto device = test::checked_sim();
  const auto draw = [&](std::uint64_t seed, std::uint32_t parameter) {
    const Tensor tensor = Tensor::empty(*device, {9}, DType::kF32);
    set_normal(tensor, 1, seed, parameter);
    return values_of(tensor);
  };
  EXPECT_EQ(draw(1, 2), draw(1, 2));
  EXPECT_NE(draw(1, 2), draw(1, 3));
  EXPECT_NE(draw(1, 2), draw(2, 2));
}

TEST(Initialize, RoundsToBf16) {
  const auto device = test::checked_sim();
  const Tensor wide = Tensor::empty(*device, {64}, DType::kF32);
  const Tensor narrow = Tensor::empty(*device, {64}, DType::kBF16);
  set_normal(wide, 1, 1, 2);
  set_normal(narrow, 1, 1, 2);
  std::vector<std::uint16_t> bits(64);
  tensor::copy_to_host(narrow, bits.data());
  const std::vector<float> values = values_of(wide);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const std::uint32_t widened = std::uint32_t{bits[i]} << 16;
    EXPECT_NEAR(std::bit_cast<float>(widened), values[i], std::fabs(values[i]) / 256);
  }
}

TEST(Initialize, SetsConstants) {
  const auto device = test::checked_sim();
  const Tensor tensor = Tensor::empty(*device, {3}, DType::kF32);
  set_constant(tensor, 2);
  EXPECT_EQ(values_of(tensor), (std::vector<float>{2, 2, 2}));
}

TEST(Initialize, TakesAsLongOnADryDevice) {
  const auto real = test::checked_sim();
  const auto dry = test::dry_sim();
  for (device::Device* device : {static_cast<device::Device*>(real.get()),
                                 static_cast<device::Device*>(dry.get())}) {
    set_normal(Tensor::empty(*device, {1000}, DType::kF32), 1, 1, 1);
    set_constant(Tensor::empty(*device, {1000}, DType::kF32), 1);
    device->synchronize();
  }
  EXPECT_EQ(real->now(), dry->now());
}

TEST(Initialize, RefusesIntegers) {
  const auto device = test::checked_sim();
  EXPECT_THROW(set_normal(Tensor::empty(*device, {3}, DType::kI32), 1, 1, 1), Error);
}

}  // namespace
}  // namespace ebb::nn
