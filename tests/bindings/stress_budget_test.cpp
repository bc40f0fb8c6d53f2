#include "bindings/cli/train/stress_budget.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebb::cli {
namespace {

using ::testing::HasSubstr;

const Refusal kFirst{.code = absl::StatusCode::kInternal, .message = "no memory"};
constexpr StressBudgets kBudgets{.device_bytes = 4096, .host_bytes = 8192};

config::RunConfig config_of(std::int64_t steps) {
  config::RunConfig config;
  config.steps = steps;
  config.host_budget_flag = "--node-host-budget";
  return config;
}

TEST(StressBudgetTest, NamesTheDevicesBudgetWhereThatAloneHelps) {
  std::int64_t most_steps = 0;
  const Refusal refusal = too_small(
      config_of(2000), kBudgets, kFirst, [&](const StressBudgets& budgets, auto steps) {
        most_steps = std::max<std::int64_t>(most_steps, steps);
        EXPECT_EQ(budgets.host_bytes, kBudgets.host_bytes);
        return budgets.device_bytes >= 100'000;
      });
  EXPECT_EQ(refusal.code, absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refusal.resource, Error::Resource::kDeviceMemory);
  EXPECT_EQ(refusal.smallest_host_budget_bytes, std::nullopt);
  ASSERT_TRUE(refusal.smallest_device_budget_bytes.has_value());
  EXPECT_GE(*refusal.smallest_device_budget_bytes, 100'000U);
  EXPECT_LE(*refusal.smallest_device_budget_bytes, 101'000U);
  EXPECT_EQ(most_steps, 50);
  EXPECT_THAT(refusal.message, HasSubstr("its first 50 steps"));
}

// A soak that passes takes all its steps: few of those, also where later steps need more.
TEST(StressBudgetTest, TakesFewStepsToFindTheSmallest) {
  for (const std::size_t later : {100'000U, 130'000U}) {
    std::int64_t taken = 0;
    const Refusal refusal = too_small(
        config_of(2000), kBudgets, kFirst, [&](const StressBudgets& budgets, auto steps) {
          const bool begins = budgets.device_bytes >= 100'000;
          const bool passes = begins && (steps < 20 || budgets.device_bytes >= later);
          taken += passes ? steps : begins ? 20 : 1;
          return passes;
        });
    EXPECT_GE(refusal.smallest_device_budget_bytes.value_or(0), later);
    EXPECT_LE(refusal.smallest_device_budget_bytes.value_or(0), later / 100 * 101);
    EXPECT_LE(taken, later == 100'000 ? 200 : 700);
  }
}

TEST(StressBudgetTest, NamesTheHostsBudgetByTheFlagThatSetsIt) {
  const Refusal refusal = too_small(
      config_of(8), kBudgets, kFirst,
      [](const StressBudgets& budgets, auto) { return budgets.host_bytes >= 100'000; });
  EXPECT_EQ(refusal.resource, Error::Resource::kHostMemory);
  EXPECT_EQ(refusal.smallest_device_budget_bytes, std::nullopt);
  ASSERT_TRUE(refusal.smallest_host_budget_bytes.has_value());
  EXPECT_THAT(refusal.message,
              HasSubstr("--node-host-budget " +
                        std::to_string(*refusal.smallest_host_budget_bytes) +
                        " is the smallest that its first 8 steps"));
}

TEST(StressBudgetTest, SaysWhatItWasToldWhereNeitherAloneHelps) {
  const Refusal refusal = too_small(config_of(8), kBudgets, kFirst,
                                    [](const StressBudgets&, auto) { return false; });
  EXPECT_EQ(refusal.code, absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refusal.message, "no memory");
  EXPECT_EQ(refusal.resource, Error::Resource::kOther);
}

}  // namespace
}  // namespace ebb::cli
