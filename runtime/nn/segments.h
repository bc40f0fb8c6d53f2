// Which layers of a model are recomputed, and when.

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/autograd/autograd.h"

namespace ebb::nn {

// Consecutive layers that are recomputed together: [first, last]. In order, without
// overlap; layers in none keep what they save.
struct CheckpointSegment {
  std::int64_t first = 0;
  std::int64_t last = 0;
  autograd::Recompute recompute = autograd::Recompute::kAlways;
};
// Error{kInvalidArgument} for layers that are not there, none, twice, or out of order.
void check_segments(const std::vector<CheckpointSegment>& segments, std::int64_t layers);

// Checked `segments`, and each layer in none of them as one of its own that is recomputed
// as needed: whoever takes over what is saved may leave it to a recompute.
std::vector<CheckpointSegment> with_others_as_needed(
    const std::vector<CheckpointSegment>& segments, std::int64_t layers);

}  // namespace ebb::nn
