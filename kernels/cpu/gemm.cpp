#include "kernels/cpu/gemm.h"

#include "dnnl.h"

#include "allocator/error.h"
#include "kernels/cpu/parallel.h"

namespace ebb::cpu {

// dnnl_sgemm, not the matmul primitive: at the shapes of GPT-2 its blocked copies of both
// operands run at 94 to 99 % of peak in every transposition, where matmul on plain layouts
// falls to 70 % (bench/kernels_bench.cpp). It keeps its scratch in the C heap, which stops
// growing after the first call with a shape.
void gemm(const GemmShape& s, const float* a, const float* b, float* c) {
  use_threads_in_libraries();
  const dnnl_status_t status = dnnl_sgemm(
      s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k, 1.0F, a,
      s.transpose_a ? s.m : s.k, b, s.transpose_b ? s.k : s.n, s.add ? 1.0F : 0.0F, c, s.n);
  EBB_CHECK(status == dnnl_success, kInternal, "gemm: oneDNN failed with status ",
            static_cast<int>(status), " for m = ", s.m, ", n = ", s.n, ", k = ", s.k);
}

}  // namespace ebb::cpu
