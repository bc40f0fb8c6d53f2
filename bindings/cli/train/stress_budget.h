// What a soak that found no memory needs.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "bench/soak/soak.h"
#include "bindings/cli/train/refusal.h"
#include "bindings/config/run_config.h"

namespace ebb::cli {

// A soak takes a few MiB. More is neither mapped nor pinned, whatever the budgets are.
inline constexpr std::size_t kMostStressBytes = std::size_t{64} << 20;

struct StressBudgets {
  std::size_t device_bytes = kMostStressBytes;
  std::size_t host_bytes = bench::SoakOptions().host_budget_bytes;
};

// Whether a soak of so many steps passes with these budgets. What it throws ends the
// search.
using SoakPasses = std::function<bool(const StressBudgets& budgets, std::int64_t steps)>;

// Of a soak that failed with `first`, for want of memory: names the budget that is too
// small, and the smallest with which its first steps pass; `first`, if neither alone helps.
Refusal too_small(const config::RunConfig& config, const StressBudgets& budgets,
                  const Refusal& first, const SoakPasses& passes);

}  // namespace ebb::cli
