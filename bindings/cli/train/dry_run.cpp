#include "bindings/cli/train/dry_run.h"

#include <vector>

#include "allocator/error.h"
#include "bindings/cli/train/run.h"

namespace ebb::cli {
namespace {

// The mean of the differences after the first, which warms up.
std::optional<double> mean_step(const std::vector<double>& borders) {
  if (borders.empty()) return std::nullopt;
  if (borders.size() == 1) return borders.front();
  return (borders.back() - borders.front()) / static_cast<double>(borders.size() - 1);
}

}  // namespace

DryFigures dry_run(const config::RunConfig& config, const DrySetup& setup,
                   const Interrupt& interrupt) {
  DryFigures figures;
  config::RunConfig dry = config;
  dry.check = false;
  std::vector<double> borders;
  try {
    Run run(dry,
            {.dry = true,
             .device_limit_bytes = setup.device_limit_bytes,
             .host_reserve_bytes = setup.host_reserve_bytes},
            nullptr);
    for (std::int64_t step = 0; step < setup.steps; ++step) {
      interrupt.check("while looking for what fits");
      const train::StepResult result = run.step();
      const std::optional<double> end = run.device().ended_at(result.border);
      if (end && run.device().capability().virtual_clock) borders.push_back(*end);
    }
    figures.memory = run.device().memory().figures();
    figures.host = run.pool().stats();
    figures.engine = run.engine().figures();
    figures.step_seconds = mean_step(borders);
  } catch (const Error& error) {
    if (error.code() != absl::StatusCode::kResourceExhausted) throw;
    figures.fits = false;
    figures.why_not = error.what();
  }
  return figures;
}

}  // namespace ebb::cli
