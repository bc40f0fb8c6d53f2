#include <algorithm>
#include <cmath>

#include "kernels/cpu/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

namespace ebb::cpu {

void cross_entropy(const CrossEntropyShape& s, void* logits, const std::int32_t* targets,
                   float* row_losses, bool gradient, float gradient_scale,
                   NativeQueue /*queue*/) {
  require_f32(s.dtype, "cross_entropy");
  require_positive(s.rows, "cross_entropy", "rows");
  require_positive(s.vocabulary, "cross_entropy", "vocabulary");
  for (std::int64_t row = 0; row < s.rows; ++row) {
    EBB_CHECK(targets[row] >= -1 && targets[row] < s.vocabulary, kInvalidArgument,
              "cross_entropy: target ", targets[row], " of row ", row,
              " is outside the vocabulary of ", s.vocabulary);
  }
  parallel_for(s.rows, [&](std::int64_t row) {
    float* z = static_cast<float*>(logits) + row * s.vocabulary;
    float* end = z + s.vocabulary;
    const std::int32_t target = targets[row];
    if (target < 0) {
      if (gradient) std::fill(z, end, 0.0F);
      return;
    }
    const float highest = *std::max_element(z, end);
    const float chosen = z[target];
    double total = 0;
    for (float* p = z; p < end; ++p) {
      const float e = std::exp(*p - highest);
      total += e;
      if (gradient) *p = e;
    }
    row_losses[row] += static_cast<float>(std::log(total)) + highest - chosen;
    if (!gradient) return;
    const float factor = gradient_scale / static_cast<float>(total);
    for (float* p = z; p < end; ++p) *p *= factor;
    z[target] -= gradient_scale;
  });
}

}  // namespace ebb::cpu
