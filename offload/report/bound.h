// The lower bound of a step's time, from its ops, what is sent away and the link's rates.
//
// Per micro-step, with c(x) the time to copy x: its bytes / rate, plus one t0 a block, and
// W(j) the most sent bytes that can be on the device at op j:
//   forward  >= max over i <= j of  f(1..i) + c(made by i..j, less W(j+1)) + f(j+1..n)
//   backward >= max over i <  j of  b(1..i) + c(first used by i+1..j, less W(i)) + b(j..m)
// At the turn, what is on the device is known: the rest has left in forward, and comes back
// in backward. A step >= the sum over its micro-steps + the optimizer, and >= what both
// directions move through the link's duplex cap. Where W covers part of the blocks between
// i and j, their t0 count in proportion.

#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "runtime/device/device.h"

namespace ebb::offload {

// An op of the compute queue.
struct BoundOp {
  double seconds = 0;
  bool recompute = false;
  std::size_t sent_bytes =
      0;  // Of blocks that it makes (forward) or uses first (backward),
  std::size_t sent_blocks = 0;  // and their number.
  // Activation bytes live at it that are not sent, plus what it makes: w(j).
  std::size_t other_bytes = 0;
  std::size_t live_sent_bytes = 0;  // Sent bytes on the device at its start.
};

struct BoundMicroStep {
  std::vector<BoundOp> forward;
  std::vector<BoundOp> backward;  // Recompute included.
};

struct BoundInput {
  std::vector<BoundMicroStep> micro_steps;
  double optimizer_seconds = 0;
  std::size_t activation_bytes = 0;  // The activation budget, or what was used at most.
  device::LinkRate d2h;
  device::LinkRate h2d;
  std::optional<double> duplex_bytes_per_second;
};

// The bound and what it is made of: f, r, b, D, H, W are means over the micro-steps. W:
// sent bytes on the device when forward ends. Rates in bytes per second, t0 included.
struct Bound {
  double seconds = 0;
  double forward_seconds = 0;
  double recompute_seconds = 0;
  double backward_seconds = 0;
  double optimizer_seconds = 0;
  double sent_bytes = 0;     // D: that leave in forward.
  double fetched_bytes = 0;  // H: that are used in backward.
  double kept_bytes = 0;     // W.
  double d2h_bytes_per_second = 0;
  double h2d_bytes_per_second = 0;
  double duplex_bytes_per_second = 0;
};

// O(ops^2) in each micro-step. An infinite rate and no latency are allowed.
Bound step_bound(const BoundInput& input);

// The two halves, for one micro-step: seconds. `live_after`: sent bytes on the device when
// forward has ended. They belong to that phase too: what the last op makes is seen there
// first, if the host was not ahead of it.
double forward_bound(const std::vector<BoundOp>& ops, std::size_t activation_bytes,
                     const device::LinkRate& link, std::size_t live_after = 0);
double backward_bound(const std::vector<BoundOp>& ops, std::size_t activation_bytes,
                      const device::LinkRate& link);

}  // namespace ebb::offload
