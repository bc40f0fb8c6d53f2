#include <algorithm>

#include "kernels/cpu/check.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/ops.h"

namespace ebb::cpu {
namespace {

void require_shape(const LinearShape& s, const char* op) {
  require_f32(s.dtype, op);
  require_positive(s.rows, op, "rows");
  require_positive(s.in, op, "in");
  require_positive(s.out, op, "out");
}

MatmulShape forward_product(const LinearShape& s, bool bias, bool gelu) {
  return {
      .m = s.rows, .n = s.out, .k = s.in, .transpose_b = true, .bias = bias, .gelu = gelu};
}

// dx[rows, in] = dy[rows, out] weight[out, in]
MatmulShape input_product(const LinearShape& s) {
  return {.m = s.rows, .n = s.in, .k = s.out};
}

// dw[out, in] = dy[rows, out]^T x[rows, in]
MatmulShape weight_product(const LinearShape& s, Into into) {
  return {
      .m = s.out, .n = s.in, .k = s.rows, .transpose_a = true, .add = into == Into::kAdd};
}

}  // namespace

std::size_t linear_forward_workspace(const LinearShape& s) {
  require_shape(s, "linear_forward");
  std::size_t bytes = 0;
  for (const bool bias : {false, true}) {
    for (const bool gelu : {false, true}) {
      bytes = std::max(bytes, matmul_workspace(forward_product(s, bias, gelu)));
    }
  }
  return bytes;
}

void linear_forward(const LinearShape& s, const void* x, const void* weight,
                    const void* bias, bool gelu, void* y, Workspace workspace,
                    NativeQueue /*queue*/) {
  require_shape(s, "linear_forward");
  matmul(forward_product(s, bias != nullptr, gelu), static_cast<const float*>(x),
         static_cast<const float*>(weight), static_cast<const float*>(bias),
         static_cast<float*>(y), workspace);
}

std::size_t linear_backward_input_workspace(const LinearShape& s) {
  require_shape(s, "linear_backward_input");
  return matmul_workspace(input_product(s));
}

void linear_backward_input(const LinearShape& s, const void* dy, const void* weight,
                           void* dx, Workspace workspace, NativeQueue /*queue*/) {
  require_shape(s, "linear_backward_input");
  matmul(input_product(s), static_cast<const float*>(dy), static_cast<const float*>(weight),
         nullptr, static_cast<float*>(dx), workspace);
}

std::size_t linear_backward_weight_workspace(const LinearShape& s) {
  require_shape(s, "linear_backward_weight");
  return std::max(matmul_workspace(weight_product(s, Into::kOverwrite)),
                  matmul_workspace(weight_product(s, Into::kAdd)));
}

void linear_backward_weight(const LinearShape& s, const void* x, const void* dy, Into into,
                            void* dw, void* db, Workspace workspace,
                            NativeQueue /*queue*/) {
  require_shape(s, "linear_backward_weight");
  matmul(weight_product(s, into), static_cast<const float*>(dy),
         static_cast<const float*>(x), nullptr, static_cast<float*>(dw), workspace);
  if (db != nullptr) {
    column_sums(s.rows, s.out, static_cast<const float*>(dy), into,
                static_cast<float*>(db));
  }
}

}  // namespace ebb::cpu
