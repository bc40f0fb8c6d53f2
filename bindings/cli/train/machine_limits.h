// What this machine, not a budget, sets a limit to.

#pragma once

#include <cstddef>
#include <optional>

#include "allocator/host_limits.h"
#include "bindings/cli/train/preflight.h"
#include "bindings/cli/train/refusal.h"
#include "bindings/config/run_config.h"

namespace ebb::cli {

// Refuses a host budget of more than the machine will ever have: a mistake, however little
// the run parks. Not of a dry run.
std::optional<Refusal> host_budget_refusal(const config::RunConfig& config,
                                           const HostLimits& limits);

// A simulated device's memory is this machine's: refuses a run that is not dry and needs
// more of it than `limits` leave.
std::optional<Refusal> machine_refusal(const config::RunConfig& config,
                                       const Clearance& clearance,
                                       const HostLimits& limits);

// A simulated device takes addresses for all that it may reserve. Where RLIMIT_AS leaves
// less than that, the device may reserve this much: half of what is left after what is
// offloaded, and no less than what the rehearsed steps took.
struct DeviceAddresses {
  std::optional<std::size_t> device_limit_bytes;     // As `clearance` has it, or less.
  std::optional<std::size_t> reference_limit_bytes;  // Of --verify-gradients; none: all.
  bool limited = false;                              // It is less.
};
DeviceAddresses device_addresses(const config::RunConfig& config,
                                 const Clearance& clearance, const HostLimits& limits);

}  // namespace ebb::cli
