#include "kernels/cpu/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector.h"

namespace ebb::cpu::EBB_ISA {
namespace {

constexpr std::int64_t kLeaf = 4096;  // What is summed in f32; leaves are in f64.

float highest_of(std::int64_t count, const float* z) {
  Vector highest = broadcast(z[0]);
  for_vectors(count, [&](auto access, std::int64_t i) {
    highest = max(highest, access.load(z + i, z[0]));
  });
  return max_lanes(highest);
}

// The sum of e^(z - highest); with kStore these take the place of z.
template <bool kStore>
double sum_exponentials(std::int64_t count, float* z, float highest) {
  double total = 0;
  for (std::int64_t begin = 0; begin < count; begin += kLeaf) {
    float* leaf = z + begin;
    const std::int64_t left = count - begin;
    total += sum_terms(left < kLeaf ? left : kLeaf, [=](auto access, std::int64_t i) {
      const Vector e = access.only(exp(access.load(leaf + i) - highest));
      if constexpr (kStore) access.store(leaf + i, e);
      return e;
    });
  }
  return total;
}

}  // namespace

void cross_entropy(const CrossEntropyShape& s, void* logits, const std::int32_t* targets,
                   float* row_losses, bool gradient, float gradient_scale,
                   NativeQueue /*queue*/) {
  require_f32(s.dtype, "cross_entropy");
  require_positive(s.rows, "cross_entropy", "rows");
  require_positive(s.vocabulary, "cross_entropy", "vocabulary");
  require_indices(s.rows, targets, -1, s.vocabulary, "cross_entropy", "target");
  parallel_for(s.rows, [&](std::int64_t row) {
    float* z = static_cast<float*>(logits) + row * s.vocabulary;
    const std::int32_t target = targets[row];
    if (target < 0) {
      if (gradient) {
        std::memset(z, 0, static_cast<std::size_t>(s.vocabulary) * sizeof(float));
      }
      return;
    }
    const float highest = highest_of(s.vocabulary, z);
    const float chosen = z[target];
    const double total = gradient ? sum_exponentials<true>(s.vocabulary, z, highest)
                                  : sum_exponentials<false>(s.vocabulary, z, highest);
    row_losses[row] +=
        static_cast<float>(__builtin_log(total) + (double{highest} - double{chosen}));
    if (!gradient) return;
    const auto factor = static_cast<float>(gradient_scale / total);
    for_vectors(s.vocabulary, [=](auto access, std::int64_t i) {
      access.store(z + i, access.load(z + i) * factor);
    });
    z[target] -= gradient_scale;
  });
}

}  // namespace ebb::cpu::EBB_ISA
