#include <algorithm>
#include <cmath>

#include "kernels/cpu/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

namespace ebb::cpu::EBB_ISA {

std::size_t attention_forward_workspace(const AttentionShape& s) {
  require_attention(s, "attention_forward");
  return static_cast<std::size_t>(s.batch * s.heads * s.seq) * sizeof(float);
}

void attention_forward(const AttentionShape& s, const Dropout& dropout, const void* qkv,
                       void* out, float* log_sum_exp, Workspace workspace,
                       NativeQueue /*queue*/) {
  require_workspace(workspace, attention_forward_workspace(s), "attention_forward");
  require_probability(dropout.probability, "attention_forward");
  const std::int64_t d = s.head_size;
  const std::int64_t row = (s.heads + 2 * s.kv_heads) * d;
  const float scale = 1.0F / std::sqrt(static_cast<float>(d));
  const std::uint32_t threshold = drop_threshold(dropout.probability);
  const float keep = 1.0F / (1.0F - dropout.probability);
  parallel_for(s.batch * s.heads, [&](std::int64_t index) {
    const std::int64_t b = index / s.heads;
    const std::int64_t h = index % s.heads;
    const std::int64_t kv = h / (s.heads / s.kv_heads);
    const float* base = static_cast<const float*>(qkv) + b * s.seq * row;
    const float* k = base + (s.heads + kv) * d;
    const float* v = base + (s.heads + s.kv_heads + kv) * d;
    float* p = static_cast<float*>(workspace.data) + index * s.seq;
    for (std::int64_t i = 0; i < s.seq; ++i) {
      const float* q = base + i * row + h * d;
      float* o = static_cast<float*>(out) + ((b * s.seq + i) * s.heads + h) * d;
      const std::int64_t keys = s.causal ? i + 1 : s.seq;
      float highest = -INFINITY;
      for (std::int64_t j = 0; j < keys; ++j) {
        float dot = 0;
        for (std::int64_t c = 0; c < d; ++c) dot += q[c] * k[j * row + c];
        p[j] = dot * scale;
        highest = std::max(highest, p[j]);
      }
      float total = 0;
      for (std::int64_t j = 0; j < keys; ++j) total += std::exp(p[j] - highest);
      const float lse = highest + std::log(total);
      log_sum_exp[index * s.seq + i] = lse;
      std::fill(o, o + d, 0.0F);
      for (std::int64_t j = 0; j < keys; ++j) {
        const auto element = static_cast<std::uint64_t>((h * s.seq + i) * s.seq + j);
        if (threshold > 0 && random_block(dropout.key, static_cast<std::uint64_t>(b),
                                          element / 4)[element % 4] < threshold) {
          continue;
        }
        const float weight = std::exp(p[j] - lse) * keep;
        for (std::int64_t c = 0; c < d; ++c) o[c] += weight * v[j * row + c];
      }
    }
  });
}

}  // namespace ebb::cpu::EBB_ISA
