// Compares what a recompute makes with what was there first, by value.

#pragma once

#include "runtime/tensor/tensor.h"

namespace ebb::autograd {

// Sum and sum of squares, f32, on the device. Undefined: not taken.
struct Checksum {
  Tensor values;
};

// The checksum of a tensor, if it is the turn of one (set_verify_recompute). Contiguous
// floating tensors only, and none on a dry device, where there is nothing to compare.
Checksum checksum_if_due(const Tensor& tensor);

// Waits for both. Error{kDataLoss} that names `op` if the tensor's checksum differs. Does
// nothing for a checksum that was not taken.
void verify_checksum(const Checksum& first, const Tensor& tensor, const char* op);

}  // namespace ebb::autograd
