// Initial values of parameters.

#pragma once

#include <cstdint>

#include "runtime/tensor/tensor.h"

namespace ebb::nn {

// Normal with mean 0, by Box and Muller's transform of Philox numbers: a function of seed,
// `parameter` (a number of its own for each tensor) and place alone. Waits for the copy. On
// a dry device the copy is timed and no number is drawn.
void set_normal(const Tensor& tensor, float standard_deviation, std::uint64_t seed,
                std::uint32_t parameter);
void set_constant(const Tensor& tensor, float value);

}  // namespace ebb::nn
