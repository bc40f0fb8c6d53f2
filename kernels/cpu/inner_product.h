// Linear layers forward, by oneDNN's inner product, with the bias in the same pass.

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace ebb::cpu {

// y[rows, out] = x[rows, in] weight[out, in]^T + bias[out]
struct InnerProductShape {
  std::int64_t rows = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = false;

  friend bool operator==(const InnerProductShape&, const InnerProductShape&) = default;
};

// Scratch bytes that inner_product() needs with the present thread count. Touches no data.
std::size_t inner_product_workspace(const InnerProductShape& shape);

// `bias` is null unless the shape has one. Primitives are kept by shape, for each calling
// thread. Error{kInternal} if oneDNN fails.
void inner_product(const InnerProductShape& shape, const float* x, const float* weight,
                   const float* bias, float* y, Workspace workspace);

}  // namespace ebb::cpu
