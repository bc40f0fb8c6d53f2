#include "kernels/cpu/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

namespace ebb::cpu {
namespace {

constexpr std::int64_t kPiece = 4096;  // Elements, whole Philox blocks.

void require(const DropoutShape& s, const Dropout& dropout, const char* op) {
  require_f32(s.dtype, op);
  require_elements(s.samples, op);
  require_elements(s.elements, op);
  require_probability(dropout.probability, op);
}

// out[i] = in[i] * mask / (1 - probability) + residual[i]
void apply(const DropoutShape& s, const Dropout& dropout, const float* in,
           const float* residual, float* out) {
  const std::uint32_t threshold = drop_threshold(dropout.probability);
  const float keep = 1.0F / (1.0F - dropout.probability);
  const std::int64_t pieces = (s.elements + kPiece - 1) / kPiece;
  parallel_for(s.samples * pieces, [&](std::int64_t index) {
    const std::int64_t sample = index / pieces;
    const std::int64_t begin = index % pieces * kPiece;
    const std::int64_t end = std::min(s.elements, begin + kPiece);
    const std::int64_t base = sample * s.elements;
    PhiloxBlock draws{};
    for (std::int64_t e = begin; e < end; ++e) {
      if (e % 4 == 0 && threshold > 0) {
        draws = random_block(dropout.key, static_cast<std::uint64_t>(sample),
                             static_cast<std::uint64_t>(e / 4));
      }
      const bool kept =
          threshold == 0 || draws[static_cast<std::size_t>(e % 4)] >= threshold;
      const float value = kept ? in[base + e] * keep : 0.0F;
      out[base + e] = residual == nullptr ? value : value + residual[base + e];
    }
  });
}

}  // namespace

void dropout_forward(const DropoutShape& s, const Dropout& dropout, const void* x,
                     const void* residual, void* y, NativeQueue /*queue*/) {
  require(s, dropout, "dropout_forward");
  apply(s, dropout, static_cast<const float*>(x), static_cast<const float*>(residual),
        static_cast<float*>(y));
}

void dropout_backward(const DropoutShape& s, const Dropout& dropout, const void* dy,
                      void* dx, NativeQueue /*queue*/) {
  require(s, dropout, "dropout_backward");
  apply(s, dropout, static_cast<const float*>(dy), nullptr, static_cast<float*>(dx));
}

}  // namespace ebb::cpu
