// Matrix products of row-major matrices, by oneDNN.

#pragma once

#include <cstdint>

namespace ebb::cpu {

// c[m, n] = a[m, k] b[k, n], plus what c holds if `add`. A transposed operand lies in
// memory as [k, m] or [n, k]. Error{kInternal} if oneDNN fails.
struct GemmShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool add = false;
};

void gemm(const GemmShape& shape, const float* a, const float* b, float* c);

}  // namespace ebb::cpu
