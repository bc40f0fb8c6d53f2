#include <algorithm>
#include <cmath>

#include "kernels/cpu/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

namespace ebb::cpu::EBB_ISA {

std::size_t attention_backward_workspace(const AttentionShape& s) {
  require_attention(s, "attention_backward");
  return 0;
}

void attention_backward(const AttentionShape& s, const Dropout& dropout, const void* qkv,
                        const void* out, const float* log_sum_exp, const void* dout,
                        void* dqkv, Workspace /*workspace*/, NativeQueue /*queue*/) {
  require_attention(s, "attention_backward");
  require_probability(dropout.probability, "attention_backward");
  const std::int64_t d = s.head_size;
  const std::int64_t row = (s.heads + 2 * s.kv_heads) * d;
  const std::int64_t group = s.heads / s.kv_heads;
  const float scale = 1.0F / std::sqrt(static_cast<float>(d));
  const std::uint32_t threshold = drop_threshold(dropout.probability);
  const float keep = 1.0F / (1.0F - dropout.probability);
  parallel_for(s.batch * s.kv_heads, [&](std::int64_t index) {
    const std::int64_t b = index / s.kv_heads;
    const std::int64_t kv = index % s.kv_heads;
    const float* base = static_cast<const float*>(qkv) + b * s.seq * row;
    float* d_base = static_cast<float*>(dqkv) + b * s.seq * row;
    const std::int64_t k_at = (s.heads + kv) * d;
    const std::int64_t v_at = (s.heads + s.kv_heads + kv) * d;
    for (std::int64_t j = 0; j < s.seq; ++j) {
      std::fill(d_base + j * row + k_at, d_base + j * row + k_at + d, 0.0F);
      std::fill(d_base + j * row + v_at, d_base + j * row + v_at + d, 0.0F);
    }
    for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      for (std::int64_t i = 0; i < s.seq; ++i) {
        const std::int64_t o_at = ((b * s.seq + i) * s.heads + h) * d;
        const float* o = static_cast<const float*>(out) + o_at;
        const float* d_o = static_cast<const float*>(dout) + o_at;
        const float* q = base + i * row + h * d;
        float* d_q = d_base + i * row + h * d;
        const float lse = log_sum_exp[(b * s.heads + h) * s.seq + i];
        float delta = 0;
        for (std::int64_t c = 0; c < d; ++c) delta += o[c] * d_o[c];
        std::fill(d_q, d_q + d, 0.0F);
        const std::int64_t keys = s.causal ? i + 1 : s.seq;
        for (std::int64_t j = 0; j < keys; ++j) {
          const float* k = base + j * row + k_at;
          const float* v = base + j * row + v_at;
          float dot = 0;
          float d_p = 0;
          for (std::int64_t c = 0; c < d; ++c) dot += q[c] * k[c];
          for (std::int64_t c = 0; c < d; ++c) d_p += d_o[c] * v[c];
          const float p = std::exp(dot * scale - lse);
          const auto element = static_cast<std::uint64_t>((h * s.seq + i) * s.seq + j);
          const bool dropped =
              threshold > 0 && random_block(dropout.key, static_cast<std::uint64_t>(b),
                                            element / 4)[element % 4] < threshold;
          const float mask = dropped ? 0.0F : keep;
          const float d_s = p * (d_p * mask - delta) * scale;
          float* d_k = d_base + j * row + k_at;
          float* d_v = d_base + j * row + v_at;
          for (std::int64_t c = 0; c < d; ++c) d_v[c] += p * mask * d_o[c];
          for (std::int64_t c = 0; c < d; ++c) d_q[c] += d_s * k[c];
          for (std::int64_t c = 0; c < d; ++c) d_k[c] += d_s * q[c];
        }
      }
    }
  });
}

}  // namespace ebb::cpu::EBB_ISA
