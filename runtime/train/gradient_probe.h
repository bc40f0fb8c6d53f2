// Looks at all parameter gradients where they are final: after the last micro-batch's
// backward, before clipping.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/nn/parameters.h"

namespace ebb::train {

// One look: a probe op (no time of the device's clock) that reads every gradient, in the
// order of the parameters.
class GradientProbe {
 public:
  // Queues the op on the current stream. Every parameter must have a gradient
  // (Error{kFailedPrecondition}). With `keep`, it also copies weights and gradients to
  // memory of its own.
  GradientProbe(const nn::Parameters& parameters, bool keep);

  // What it found, once the op has ended; nothing on a dry device, where no op runs.
  std::optional<std::uint64_t> checksum() const;
  // By parameter: the bytes of weights and gradients, if they were kept.
  const std::vector<std::vector<std::byte>>& weights() const;
  const std::vector<std::vector<std::byte>>& gradients() const;
  // How long the look itself took: no part of the step.
  double wall_seconds() const;

 private:
  struct Found;
  std::shared_ptr<Found> found_;  // The op's, too.
};

}  // namespace ebb::train
