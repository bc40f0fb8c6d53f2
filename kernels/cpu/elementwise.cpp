#include "kernels/cpu/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

namespace ebb::cpu {
namespace {

constexpr std::int64_t kPiece = 16384;

// value(i) for each element, in parallel.
template <typename Value>
void each(std::int64_t elements, float* y, const Value& value) {
  parallel_pieces(elements, kPiece, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = value(i);
  });
}

void require(DType dtype, std::int64_t elements, const char* op) {
  require_f32(dtype, op);
  require_elements(elements, op);
}

}  // namespace

void fill(DType dtype, std::int64_t elements, float value, void* y, NativeQueue /*queue*/) {
  require(dtype, elements, "fill");
  each(elements, static_cast<float*>(y), [=](std::int64_t) { return value; });
}

void add(DType dtype, std::int64_t elements, const void* a, const void* b, void* y,
         NativeQueue /*queue*/) {
  require(dtype, elements, "add");
  const auto* left = static_cast<const float*>(a);
  const auto* right = static_cast<const float*>(b);
  each(elements, static_cast<float*>(y),
       [=](std::int64_t i) { return left[i] + right[i]; });
}

void multiply(DType dtype, std::int64_t elements, const void* a, const void* b, void* y,
              NativeQueue /*queue*/) {
  require(dtype, elements, "multiply");
  const auto* left = static_cast<const float*>(a);
  const auto* right = static_cast<const float*>(b);
  each(elements, static_cast<float*>(y),
       [=](std::int64_t i) { return left[i] * right[i]; });
}

void scale(DType dtype, std::int64_t elements, const void* x, float factor,
           const float* device_factor, void* y, NativeQueue /*queue*/) {
  require(dtype, elements, "scale");
  const auto* in = static_cast<const float*>(x);
  const float by = device_factor == nullptr ? factor : factor * device_factor[0];
  each(elements, static_cast<float*>(y), [=](std::int64_t i) { return in[i] * by; });
}

}  // namespace ebb::cpu
