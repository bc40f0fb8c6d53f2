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

// Too small a budget shows in the first steps, mostly in the very first.
constexpr std::int64_t kSearchSteps = 50;
constexpr std::int64_t kFirstSteps = 8;

// Of `budget`, which is one of `budgets`: the smallest with which `steps` steps pass. What
// fails in a few steps seldom passes in more: so few are taken until nearly all is known.
std::optional<std::size_t> smallest(StressBudgets budgets,
                                    std::size_t StressBudgets::*budget, std::int64_t steps,
                                    const SoakPasses& passes) {
  const auto works_for = [&](std::int64_t count) {
    return [&, count](std::size_t bytes) {
      budgets.*budget = bytes;
      return passes(budgets, count);
    };
  };
  const auto works = works_for(steps);
  const auto begins = works_for(std::min(steps, kFirstSteps));
  const std::size_t fails = budgets.*budget;
  std::size_t enough = std::max(2 * fails, std::size_t{1} << 20);
  while (enough < kMostStressBytes && !works(enough)) enough *= 2;
  if (enough >= kMostStressBytes) return std::nullopt;
  const std::size_t least = smallest_budget(fails, enough, begins);
  if (least == enough) return least;
  if (!works(least)) return smallest_budget(least, enough, works);
  // What fails at first may make up for it.
  const std::size_t less = least / 100 * 97;
  return less > fails && works(less) ? smallest_budget(fails, less, works) : least;
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
