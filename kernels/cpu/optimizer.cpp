#include <algorithm>
#include <cmath>

#include "kernels/cpu/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

namespace ebb::cpu {
namespace {

constexpr std::int64_t kPiece = 16384;

}  // namespace

void clip_factor(std::int64_t count, const float* squares, float max_norm, float* norm,
                 float* factor, NativeQueue /*queue*/) {
  require_elements(count, "clip_factor");
  double total = 0;
  for (std::int64_t i = 0; i < count; ++i) total += squares[i];
  norm[0] = static_cast<float>(std::sqrt(total));
  factor[0] = std::min(1.0F, max_norm / (norm[0] + 1e-6F));
}

void adamw(DType dtype, std::int64_t elements, const AdamW& options, void* parameter,
           const void* gradient, const float* gradient_factor, float* m, float* v,
           float* master, NativeQueue /*queue*/) {
  require_f32(dtype, "adamw");
  require_elements(elements, "adamw");
  EBB_CHECK(options.step >= 1, kInvalidArgument, "adamw: step ", options.step,
            "; steps count from 1");
  EBB_CHECK(master == nullptr, kInvalidArgument,
            "adamw: a master copy is for parameters that are not f32");
  auto* p = static_cast<float*>(parameter);
  const auto* g = static_cast<const float*>(gradient);
  const float by = gradient_factor == nullptr ? 1.0F : gradient_factor[0];
  const double steps = static_cast<double>(options.step);
  const double correction1 = 1.0 - std::pow(double{options.beta1}, steps);
  const double correction2 = 1.0 - std::pow(double{options.beta2}, steps);
  const auto rate = static_cast<float>(options.learning_rate / correction1);
  const auto root = static_cast<float>(1.0 / std::sqrt(correction2));
  const float decay = 1.0F - options.learning_rate * options.weight_decay;
  const float beta1 = options.beta1;
  const float beta2 = options.beta2;
  const float epsilon = options.epsilon;
  parallel_pieces(elements, kPiece, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float gi = g[i] * by;
      m[i] = beta1 * m[i] + (1.0F - beta1) * gi;
      v[i] = beta2 * v[i] + (1.0F - beta2) * gi * gi;
      p[i] = p[i] * decay - rate * m[i] / (std::sqrt(v[i]) * root + epsilon);
    }
  });
}

}  // namespace ebb::cpu
