// The ops of one step as they ran, and what they say: where the time went, and the least
// that it could have taken.

#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "offload/engine/engine.h"
#include "offload/report/bound.h"
#include "runtime/device/device.h"

namespace ebb::offload {

using StepOps = std::vector<device::OpRecord>;

// Where the time of a step went, in seconds. compute + recompute + the stalls = step.
struct StepTime {
  double step = 0;
  double compute = 0;  // All of the compute queue but recompute.
  double recompute = 0;
  std::array<double, device::kStallCauses> stall{};  // By device::StallCause.
};

// The name that reports use: "d2h_backlog", "h2d_late", ...
const char* name(device::StallCause cause) noexcept;

// Of the ops of one step on the compute queue: each one's time, and how long the queue
// stood still before it.
StepTime step_time(const StepOps& ops);

// What step_bound() needs: micro-steps are told apart by the phases of the compute ops, and
// blocks found by the events of the ops that make and use them. Blocks that nobody used are
// none that had to cross the link: their copies are left out if they are dropped in time.
BoundInput bound_input(const StepOps& ops, std::span<const SentBlock> blocks,
                       std::size_t activation_bytes, const device::Capability& capability);

}  // namespace ebb::offload
