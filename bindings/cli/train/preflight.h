// Answers before the first step whether a run fits, with how much, and what would fit if it
// does not: by dry runs, whose figures are exact.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "bindings/cli/interrupt.h"
#include "bindings/cli/train/dry_run.h"
#include "bindings/cli/train/refusal.h"
#include "bindings/config/run_config.h"

namespace ebb::cli {

// What the same steps take and need with nothing checkpointed or offloaded, on a device
// without capacity.
struct Without {
  std::size_t peak_bytes = 0;
  std::optional<double> step_seconds;
};

// A run that fits.
struct Clearance {
  Without without;
  // What the run may reserve: the dry run's peak, where that saw every step on a clock that
  // does not depend on the machine; else the budget (none: no limit).
  std::optional<std::size_t> device_limit_bytes;
  std::size_t host_reserve_bytes = 0;  // What it parks at most.
  // Less than the host budget, where the run fits with that and not with all of it: then
  // it has to do with this. More room lets the arena choose otherwise, seldom for the
  // worse.
  std::optional<std::size_t> host_budget_bytes;
  DryFigures figures;
};

using Verdict = std::variant<Clearance, Refusal>;

// The budget that holds for the run: what was asked for, else the device's capacity.
std::optional<std::size_t> device_budget_bytes(const config::RunConfig& config);

// How many steps dry runs of `config` take: all, unless that would take long.
std::int64_t dry_steps(const config::RunConfig& config);

// A run is cleared if and only if a dry run of it works within its budgets, or with a part
// of its host budget that is tried. Deterministic,
// whether the run itself is dry or not. Throws Error{kCancelled}.
Verdict preflight(const config::RunConfig& config, const Interrupt& interrupt);

}  // namespace ebb::cli
