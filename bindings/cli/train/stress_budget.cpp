#include "bindings/cli/train/stress_budget.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "allocator/error.h"
#include "bindings/cli/train/budget_search.h"

namespace ebb::cli {
namespace {

// Too small a budget shows in the first steps.
constexpr std::int64_t kSearchSteps = 50;

// Of `budget`, which is one of `budgets`: the smallest with which `steps` steps pass.
std::optional<std::size_t> smallest(StressBudgets budgets,
                                    std::size_t StressBudgets::*budget, std::int64_t steps,
                                    const SoakPasses& passes) {
  const auto works = [&](std::size_t bytes) {
    budgets.*budget = bytes;
    return passes(budgets, steps);
  };
  const std::size_t fails = budgets.*budget;
  std::size_t enough = std::max(2 * fails, std::size_t{1} << 20);
  while (enough < kMostStressBytes && !works(enough)) enough *= 2;
  if (enough >= kMostStressBytes) return std::nullopt;
  return smallest_budget(fails, enough, works);
}

}  // namespace

Refusal too_small(const config::RunConfig& config, const StressBudgets& budgets,
                  const Refusal& first, const SoakPasses& passes) {
  const std::int64_t steps = std::min(config.steps, kSearchSteps);
  Refusal refusal = first;
  refusal.code = absl::StatusCode::kResourceExhausted;
  const auto say_so = [&](const char* what, std::size_t has, const std::string& flag,
                          std::size_t needs) {
    const Compared sizes = compared(needs, has);
    refusal.message = absl::StrCat(
        "the soak needs ", sizes.needs, " of ", what, " and has ", sizes.has, ": ", flag,
        " ", needs, " is the smallest that its first ", steps, " steps work with");
  };
  if (const auto needs = smallest(budgets, &StressBudgets::device_bytes, steps, passes)) {
    refusal.resource = Error::Resource::kDeviceMemory;
    refusal.smallest_device_budget_bytes = needs;
    say_so("device memory", budgets.device_bytes, "--device-budget", *needs);
  } else if (const auto host =
                 smallest(budgets, &StressBudgets::host_bytes, steps, passes)) {
    refusal.resource = Error::Resource::kHostMemory;
    refusal.smallest_host_budget_bytes = host;
    say_so("host memory", budgets.host_bytes, config.host_budget_flag, *host);
  }
  return refusal;
}

}  // namespace ebb::cli
