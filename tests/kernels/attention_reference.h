// Attention as its definition says, in doubles and with the whole matrix of probabilities.

#pragma once

#include "tests/kernels/kernel_fixture.h"

namespace ebb {

struct AttentionReference {
  Doubles out;
  Doubles log_sum_exp;
  Doubles dqkv;
};

inline double drop_factor(const AttentionShape& s, const Dropout& dropout, std::int64_t b,
                          std::int64_t h, std::int64_t i, std::int64_t j) {
  if (dropout.probability == 0) return 1;
  const auto element = static_cast<std::uint64_t>((h * s.seq + i) * s.seq + j);
  const std::uint32_t number =
      random_block(dropout.key, static_cast<std::uint64_t>(b), element / 4)[element % 4];
  return number < drop_threshold(dropout.probability)
             ? 0.0
             : 1.0 / (1.0 - double{dropout.probability});
}

// `dout` may be empty: then there is no gradient.
inline AttentionReference attention_reference(const AttentionShape& s,
                                              const Dropout& dropout, const Doubles& qkv,
                                              const Floats& dout) {
  const std::int64_t d = s.head_size;
  const std::int64_t row = (s.heads + 2 * s.kv_heads) * d;
  AttentionReference r;
  r.out.assign(static_cast<std::size_t>(s.batch * s.seq * s.heads * d), 0);
  r.log_sum_exp.assign(static_cast<std::size_t>(s.batch * s.heads * s.seq), 0);
  r.dqkv.assign(qkv.size(), 0);
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const std::int64_t kv = h / (s.heads / s.kv_heads);
      const auto q_at = [&](std::int64_t i) { return (b * s.seq + i) * row + h * d; };
      const auto k_at = [&](std::int64_t j) {
        return (b * s.seq + j) * row + (s.heads + kv) * d;
      };
      const auto v_at = [&](std::int64_t j) { return k_at(j) + s.kv_heads * d; };
      for (std::int64_t i = 0; i < s.seq; ++i) {
        const std::int64_t keys = s.causal ? i + 1 : s.seq;
        const std::int64_t o_at = ((b * s.seq + i) * s.heads + h) * d;
        Doubles p(static_cast<std::size_t>(keys));
        double total = 0;
        for (std::int64_t j = 0; j < keys; ++j) {
          double score = 0;
          for (std::int64_t c = 0; c < d; ++c) {
            score += qkv[static_cast<std::size_t>(q_at(i) + c)] *
                     qkv[static_cast<std::size_t>(k_at(j) + c)];
          }
          p[static_cast<std::size_t>(j)] = std::exp(score * scale);
          total += p[static_cast<std::size_t>(j)];
        }
        r.log_sum_exp[static_cast<std::size_t>((b * s.heads + h) * s.seq + i)] =
            std::log(total);
        double delta = 0;
        for (std::int64_t j = 0; j < keys; ++j) {
          p[static_cast<std::size_t>(j)] /= total;
          const double weight =
              p[static_cast<std::size_t>(j)] * drop_factor(s, dropout, b, h, i, j);
          for (std::int64_t c = 0; c < d; ++c) {
            const double term = weight * qkv[static_cast<std::size_t>(v_at(j) + c)];
            r.out[static_cast<std::size_t>(o_at + c)] += term;
            if (!dout.empty()) delta += term * dout[static_cast<std::size_t>(o_at + c)];
          }
        }
        for (std::int64_t j = 0; j < keys && !dout.empty(); ++j) {
          const double factor = drop_factor(s, dropout, b, h, i, j);
          double dp = 0;
          for (std::int64_t c = 0; c < d; ++c) {
            const double g = dout[static_cast<std::size_t>(o_at + c)];
            dp += g * qkv[static_cast<std::size_t>(v_at(j) + c)];
            r.dqkv[static_cast<std::size_t>(v_at(j) + c)] +=
                p[static_cast<std::size_t>(j)] * factor * g;
          }
          const double ds = p[static_cast<std::size_t>(j)] * (dp * factor - delta) * scale;
          for (std::int64_t c = 0; c < d; ++c) {
            r.dqkv[static_cast<std::size_t>(q_at(i) + c)] +=
                ds * qkv[static_cast<std::size_t>(k_at(j) + c)];
            r.dqkv[static_cast<std::size_t>(k_at(j) + c)] +=
                ds * qkv[static_cast<std::size_t>(q_at(i) + c)];
          }
        }
      }
    }
  }
  return r;
}

// Shapes on every side of a tile of 64: shorter, equal, longer by one, several; sequences
// that are no multiple of 4; head sizes that fill no vector; fewer key heads than heads.
inline const AttentionShape kAttentionShapes[] = {
    {.batch = 1, .seq = 1, .heads = 1, .kv_heads = 1, .head_size = 1},
    {.batch = 2, .seq = 5, .heads = 2, .kv_heads = 1, .head_size = 3},
    {.batch = 1, .seq = 64, .heads = 2, .kv_heads = 2, .head_size = 16},
    {.batch = 1, .seq = 65, .heads = 1, .kv_heads = 1, .head_size = 20},
    {.batch = 2, .seq = 132, .heads = 2, .kv_heads = 2, .head_size = 64},
    {.batch = 1, .seq = 131, .heads = 4, .kv_heads = 2, .head_size = 40},
    {.batch = 1, .seq = 70, .heads = 2, .kv_heads = 2, .head_size = 7, .causal = false},
    {.batch = 1, .seq = 128, .heads = 1, .kv_heads = 1, .head_size = 33, .causal = false},
};

inline Floats attention_inputs(const AttentionShape& s, std::uint32_t seed) {
  return random_floats(s.batch * s.seq * (s.heads + 2 * s.kv_heads) * s.head_size, seed);
}

inline Dropout attention_dropout(float probability) {
  return {.probability = probability,
          .key = {.seed = 0x123456789ABCDEF0U, .step = 7, .op = 3, .first_sample = 5}};
}

struct AttentionOutput {
  Floats out, log_sum_exp;
};

inline AttentionOutput attention_forward(const Kernels& kernels, const AttentionShape& s,
                                         const Dropout& dropout, const Floats& qkv) {
  AttentionOutput r{
      Floats(static_cast<std::size_t>(s.batch * s.seq * s.heads * s.head_size), NAN),
      Floats(static_cast<std::size_t>(s.batch * s.heads * s.seq), NAN)};
  Scratch scratch(kernels.attention_forward_workspace(s));
  kernels.attention_forward(s, dropout, qkv.data(), r.out.data(), r.log_sum_exp.data(),
                            scratch, nullptr);
  return r;
}

}  // namespace ebb
