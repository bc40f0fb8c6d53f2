// Matrix products by oneDNN, with their primitives kept by shape.

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace ebb::cpu {

// c[m, n] = epilogue(a[m, k] b[k, n] + bias[n]), row-major in c. A transposed operand lies
// in memory as [k, m] or [n, k].
struct MatmulShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool bias = false;
  bool gelu = false;  // tanh GELU of the result.
  bool add = false;   // To what c holds.

  friend bool operator==(const MatmulShape&, const MatmulShape&) = default;
};

// Scratch bytes that matmul() needs with the present thread count. Allocates no data.
std::size_t matmul_workspace(const MatmulShape& shape);

// `bias` is null unless the shape has one. Error{kInternal} if oneDNN fails.
void matmul(const MatmulShape& shape, const float* a, const float* b, const float* bias,
            float* c, Workspace workspace);

}  // namespace ebb::cpu
