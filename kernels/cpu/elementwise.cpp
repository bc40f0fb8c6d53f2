#include "kernels/cpu/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector.h"

namespace ebb::cpu::EBB_ISA {
namespace {

constexpr std::int64_t kPiece = 16384;

// y[i] = value(access, i), in parallel. y may be what `value` reads.
template <typename Value>
void each(DType dtype, std::int64_t elements, void* y, const char* op, const Value& value) {
  require_f32(dtype, op);
  require_elements(elements, op);
  parallel_pieces(elements, kPiece, [&](std::int64_t begin, std::int64_t end) {
    float* out = static_cast<float*>(y);
    for_vectors(end - begin, [=](auto access, std::int64_t i) {
      access.store(out + begin + i, value(access, begin + i));
    });
  });
}

}  // namespace

void fill(DType dtype, std::int64_t elements, float value, void* y, NativeQueue /*queue*/) {
  each(dtype, elements, y, "fill", [=](auto, std::int64_t) { return broadcast(value); });
}

void add(DType dtype, std::int64_t elements, const void* a, const void* b, void* y,
         NativeQueue /*queue*/) {
  each(dtype, elements, y, "add", [=](auto access, std::int64_t i) {
    return access.load(static_cast<const float*>(a) + i) +
           access.load(static_cast<const float*>(b) + i);
  });
}

void multiply(DType dtype, std::int64_t elements, const void* a, const void* b, void* y,
              NativeQueue /*queue*/) {
  each(dtype, elements, y, "multiply", [=](auto access, std::int64_t i) {
    return access.load(static_cast<const float*>(a) + i) *
           access.load(static_cast<const float*>(b) + i);
  });
}

void scale(DType dtype, std::int64_t elements, const void* x, float factor,
           const float* device_factor, void* y, NativeQueue /*queue*/) {
  const float by = device_factor == nullptr ? factor : factor * device_factor[0];
  each(dtype, elements, y, "scale", [=](auto access, std::int64_t i) {
    return access.load(static_cast<const float*>(x) + i) * by;
  });
}

}  // namespace ebb::cpu::EBB_ISA
