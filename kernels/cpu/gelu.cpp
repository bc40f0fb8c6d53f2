#include "kernels/cpu/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector.h"

// 0.5 (1 + tanh u) = sigmoid(2 u), which needs one exponential and loses no digits where
// tanh is near -1.

namespace ebb::cpu::EBB_ISA {
namespace {

constexpr std::int64_t kPiece = 16384;
constexpr float kScale = 1.5957691216057308F;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715F * kScale;

}  // namespace

void gelu_forward(DType dtype, std::int64_t elements, const void* x, void* y,
                  NativeQueue /*queue*/) {
  require_f32(dtype, "gelu_forward");
  require_elements(elements, "gelu_forward");
  parallel_pieces(elements, kPiece, [=](std::int64_t begin, std::int64_t end) {
    const float* in = static_cast<const float*>(x) + begin;
    float* out = static_cast<float*>(y) + begin;
    for_vectors(end - begin, [=](auto access, std::int64_t i) {
      const Vector v = access.load(in + i);
      access.store(out + i, v * sigmoid(v * (v * v * kCubic + kScale)));
    });
  });
}

void gelu_backward(DType dtype, std::int64_t elements, const void* x, const void* dy,
                   void* dx, NativeQueue /*queue*/) {
  require_f32(dtype, "gelu_backward");
  require_elements(elements, "gelu_backward");
  parallel_pieces(elements, kPiece, [=](std::int64_t begin, std::int64_t end) {
    const float* in = static_cast<const float*>(x) + begin;
    const float* gradient = static_cast<const float*>(dy) + begin;
    float* out = static_cast<float*>(dx) + begin;
    for_vectors(end - begin, [=](auto access, std::int64_t i) {
      const Vector v = access.load(in + i);
      const Vector square = v * v;
      const Vector s = sigmoid(v * (square * kCubic + kScale));
      const Vector slope = square * (3 * kCubic) + kScale;
      access.store(out + i,
                   access.load(gradient + i) * s * (1.0F + v * (1.0F - s) * slope));
    });
  });
}

}  // namespace ebb::cpu::EBB_ISA
