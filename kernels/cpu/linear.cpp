#include "kernels/cpu/check.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/inner_product.h"
#include "kernels/cpu/ops.h"

namespace ebb::cpu::EBB_ISA {
namespace {

void require_shape(const LinearShape& s, const char* op) {
  require_f32(s.dtype, op);
  require_positive(s.rows, op, "rows");
  require_positive(s.in, op, "in");
  require_positive(s.out, op, "out");
}

}  // namespace

std::size_t linear_forward_workspace(const LinearShape& s) {
  require_shape(s, "linear_forward");
  const std::size_t bare = inner_product_workspace({s.rows, s.in, s.out, false});
  const std::size_t biased = inner_product_workspace({s.rows, s.in, s.out, true});
  return bare > biased ? bare : biased;
}

void linear_forward(const LinearShape& s, const void* x, const void* weight,
                    const void* bias, bool gelu, void* y, Workspace workspace,
                    NativeQueue queue) {
  require_shape(s, "linear_forward");
  inner_product({s.rows, s.in, s.out, bias != nullptr}, static_cast<const float*>(x),
                static_cast<const float*>(weight), static_cast<const float*>(bias),
                static_cast<float*>(y), workspace);
  // Our own GELU, over what the caches still hold in part: oneDNN's takes twice as long,
  // and would give other bits than gelu_forward(), which a recompute may take.
  if (gelu) gelu_forward(s.dtype, s.rows * s.out, y, y, queue);
}

std::size_t linear_backward_input_workspace(const LinearShape& s) {
  require_shape(s, "linear_backward_input");
  return 0;
}

void linear_backward_input(const LinearShape& s, const void* dy, const void* weight,
                           void* dx, Workspace /*workspace*/, NativeQueue /*queue*/) {
  require_shape(s, "linear_backward_input");
  gemm({.m = s.rows, .n = s.in, .k = s.out}, static_cast<const float*>(dy),
       static_cast<const float*>(weight), static_cast<float*>(dx));
}

std::size_t linear_backward_weight_workspace(const LinearShape& s) {
  require_shape(s, "linear_backward_weight");
  return 0;
}

void linear_backward_weight(const LinearShape& s, const void* x, const void* dy, Into into,
                            void* dw, void* db, Workspace /*workspace*/,
                            NativeQueue /*queue*/) {
  require_shape(s, "linear_backward_weight");
  gemm({.m = s.out, .n = s.in, .k = s.rows, .transpose_a = true, .add = into == Into::kAdd},
       static_cast<const float*>(dy), static_cast<const float*>(x),
       static_cast<float*>(dw));
  if (db != nullptr) {
    column_sums(s.rows, s.out, static_cast<const float*>(dy), into,
                static_cast<float*>(db));
  }
}

}  // namespace ebb::cpu::EBB_ISA
