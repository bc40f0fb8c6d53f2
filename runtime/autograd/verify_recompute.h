// Compares what a recompute makes with what was there first, by value.
//
// Both looks are probes: they have their place in the order of the stream, and change
// neither the clock nor a byte of the device.

#pragma once

#include <array>
#include <memory>

#include "runtime/tensor/tensor.h"

namespace ebb::autograd {

// Sum and sum of squares, f32, once the probe has run. Null: not taken.
struct Checksum {
  std::shared_ptr<std::array<float, 2>> values;
};

// Queues the checksum of a tensor, if it is the turn of one (set_verify_recompute).
// Contiguous floating tensors only, and none on a dry device, where there is nothing to
// compare.
Checksum checksum_if_due(const Tensor& tensor);

// Queues the comparison. If the tensor's checksum differs, the stream fails with
// Error{kDataLoss} that names `op`; the next synchronising call throws it. Does nothing for
// a checksum that was not taken.
void verify_checksum(const Checksum& first, const Tensor& tensor, const char* op);

}  // namespace ebb::autograd
