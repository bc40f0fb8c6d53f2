#include <cmath>

#include "kernels/cpu/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

namespace ebb::cpu {
namespace {

constexpr std::int64_t kPiece = 4096;
constexpr float kScale = 0.7978845608028654F;  // sqrt(2 / pi)
constexpr float kCubic = 0.044715F;

}  // namespace

void gelu_forward(DType dtype, std::int64_t elements, const void* x, void* y,
                  NativeQueue /*queue*/) {
  require_f32(dtype, "gelu_forward");
  require_elements(elements, "gelu_forward");
  const auto* in = static_cast<const float*>(x);
  auto* out = static_cast<float*>(y);
  parallel_pieces(elements, kPiece, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float v = in[i];
      out[i] = 0.5F * v * (1.0F + std::tanh(kScale * (v + kCubic * v * v * v)));
    }
  });
}

void gelu_backward(DType dtype, std::int64_t elements, const void* x, const void* dy,
                   void* dx, NativeQueue /*queue*/) {
  require_f32(dtype, "gelu_backward");
  require_elements(elements, "gelu_backward");
  const auto* in = static_cast<const float*>(x);
  const auto* gradient = static_cast<const float*>(dy);
  auto* out = static_cast<float*>(dx);
  parallel_pieces(elements, kPiece, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float v = in[i];
      const float t = std::tanh(kScale * (v + kCubic * v * v * v));
      const float slope = kScale * (1.0F + 3.0F * kCubic * v * v);
      out[i] = gradient[i] * (0.5F * (1.0F + t) + 0.5F * v * (1.0F - t * t) * slope);
    }
  });
}

}  // namespace ebb::cpu
