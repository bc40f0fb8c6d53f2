#include "kernels/cpu/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/random_vector.h"
#include "kernels/cpu/vector.h"

namespace ebb::cpu::EBB_ISA {
namespace {

constexpr std::int64_t kPiece = 2048;  // Elements: whole vectors of Philox blocks.

void require(const DropoutShape& s, const Dropout& dropout, const char* op) {
  require_f32(s.dtype, op);
  require_elements(s.samples, op);
  require_elements(s.elements, op);
  require_probability(dropout.probability, op);
}

// out[i] = value(access, i, kept), where kept(v) is v / (1 - probability), or 0.
template <typename Value>
void drop(const DropoutShape& s, const Dropout& dropout, float* out, const Value& value) {
  const std::uint32_t threshold = drop_threshold(dropout.probability);
  const float keep = 1.0F / (1.0F - dropout.probability);
  const std::int64_t pieces = (s.elements + kPiece - 1) / kPiece;
  parallel_for(s.samples * pieces, [&](std::int64_t index) {
    const std::int64_t sample = index / pieces;
    const std::int64_t begin = index % pieces * kPiece;
    const std::int64_t count = s.elements - begin < kPiece ? s.elements - begin : kPiece;
    const std::int64_t base = sample * s.elements + begin;
    if (threshold == 0) {
      for_vectors(count, [&](auto access, std::int64_t i) {
        access.store(out + base + i, value(access, base + i, [](Vector v) { return v; }));
      });
      return;
    }
    std::uint32_t numbers[kPiece + 4 * kLanes];
    random_numbers(dropout.key, static_cast<std::uint64_t>(sample),
                   static_cast<std::uint64_t>(begin / 4), count, numbers);
    for_vectors(count, [&](auto access, std::int64_t i) {
      Words drawn;
      std::memcpy(&drawn, numbers + i, sizeof drawn);
      access.store(out + base + i, value(access, base + i, [=](Vector v) {
                     return drawn >= threshold ? v * keep : Vector{};
                   }));
    });
  });
}

}  // namespace

void dropout_forward(const DropoutShape& s, const Dropout& dropout, const void* x,
                     const void* residual, void* y, NativeQueue /*queue*/) {
  require(s, dropout, "dropout_forward");
  const auto* in = static_cast<const float*>(x);
  const auto* other = static_cast<const float*>(residual);
  if (residual == nullptr) {
    drop(s, dropout, static_cast<float*>(y),
         [=](auto access, std::int64_t i, auto kept) { return kept(access.load(in + i)); });
    return;
  }
  drop(s, dropout, static_cast<float*>(y), [=](auto access, std::int64_t i, auto kept) {
    return kept(access.load(in + i)) + access.load(other + i);
  });
}

void dropout_backward(const DropoutShape& s, const Dropout& dropout, const void* dy,
                      void* dx, NativeQueue queue) {
  require(s, dropout, "dropout_backward");
  dropout_forward(s, dropout, dy, nullptr, dx, queue);
}

}  // namespace ebb::cpu::EBB_ISA
