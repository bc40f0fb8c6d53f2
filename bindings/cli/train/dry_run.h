// A run's exact time and memory, without computing anything.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "allocator/pinned_pool.h"
#include "bindings/cli/interrupt.h"
#include "bindings/config/run_config.h"
#include "offload/engine/engine.h"
#include "runtime/device/device.h"

namespace ebb::cli {

struct DryFigures {
  bool fits = true;
  std::string why_not;  // What the allocation that failed said.
  device::MemoryFigures memory;
  PinnedPool::Stats host;
  offload::EngineFigures engine;
  // Mean over the steps after the first (of the first, if it is the only one); none on a
  // wall clock.
  std::optional<double> step_seconds;
};

struct DrySetup {
  std::int64_t steps = 1;
  std::optional<std::size_t> device_limit_bytes;
  std::size_t host_reserve_bytes = 0;
};

// Runs `setup.steps` steps of `config`. Memory that does not fit is an answer, not an
// error. Throws Error{kCancelled} if `interrupt` was requested.
DryFigures dry_run(const config::RunConfig& config, const DrySetup& setup,
                   const Interrupt& interrupt);

}  // namespace ebb::cli
