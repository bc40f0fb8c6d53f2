#include "kernels/cpu/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector.h"

namespace ebb::cpu::EBB_ISA {
namespace {

constexpr std::int64_t kPiece = 16384;

}  // namespace

void clip_factor(std::int64_t count, const float* squares, float max_norm, float* norm,
                 float* factor, NativeQueue /*queue*/) {
  require_elements(count, "clip_factor");
  double total = 0;
  for (std::int64_t i = 0; i < count; ++i) total += squares[i];
  norm[0] = static_cast<float>(__builtin_sqrt(total));
  const float by = max_norm / (norm[0] + 1e-6F);
  factor[0] = by < 1.0F ? by : 1.0F;
}

void adamw(DType dtype, std::int64_t elements, const AdamW& options, void* parameter,
           const void* gradient, const float* gradient_factor, float* m, float* v,
           float* master, NativeQueue /*queue*/) {
  require_f32(dtype, "adamw");
  require_elements(elements, "adamw");
  require_positive(options.step, "adamw", "step");
  require_no_master(master);
  auto* p = static_cast<float*>(parameter);
  const auto* g = static_cast<const float*>(gradient);
  const float by = gradient_factor == nullptr ? 1.0F : gradient_factor[0];
  const auto steps = static_cast<double>(options.step);
  const double correction1 = 1.0 - __builtin_pow(double{options.beta1}, steps);
  const double correction2 = 1.0 - __builtin_pow(double{options.beta2}, steps);
  const auto rate = static_cast<float>(options.learning_rate / correction1);
  const auto root = static_cast<float>(1.0 / __builtin_sqrt(correction2));
  const auto decay =
      static_cast<float>(1.0 - double{options.learning_rate} * options.weight_decay);
  const float beta1 = options.beta1;
  const float beta2 = options.beta2;
  const float rest1 = 1.0F - beta1;
  const float rest2 = 1.0F - beta2;
  const float epsilon = options.epsilon;
  parallel_pieces(elements, kPiece, [=](std::int64_t begin, std::int64_t end) {
    for_vectors(end - begin, [=](auto access, std::int64_t offset) {
      const std::int64_t i = begin + offset;
      const Vector scaled = access.load(g + i) * by;
      const Vector first = access.load(m + i) * beta1 + scaled * rest1;
      const Vector second = access.load(v + i) * beta2 + scaled * scaled * rest2;
      access.store(m + i, first);
      access.store(v + i, second);
      const Vector step = first * rate / (sqrt(second) * root + epsilon);
      access.store(p + i, access.load(p + i) * decay - step);
    });
  });
}

}  // namespace ebb::cpu::EBB_ISA
