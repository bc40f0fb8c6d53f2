#include <array>
#include <cstdint>

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_kernels.h"

namespace ebb {
namespace {

TEST(MeanFactor, IsOneOverTheTargetsThatCount) {
  const std::array<std::int32_t, 5> targets = {3, -1, 0, 7, -1};
  float factor = 0;
  cpu_kernels().mean_factor(5, targets.data(), &factor, nullptr);
  EXPECT_EQ(factor, 1.0F / 3.0F);
}

TEST(MeanFactor, IsOneWhereNoTargetCounts) {
  const std::array<std::int32_t, 2> targets = {-1, -1};
  float factor = 0;
  cpu_kernels().mean_factor(2, targets.data(), &factor, nullptr);
  EXPECT_EQ(factor, 1.0F);
  cpu_kernels().mean_factor(0, targets.data(), &factor, nullptr);
  EXPECT_EQ(factor, 1.0F);
}

}  // namespace
}  // namespace ebb
