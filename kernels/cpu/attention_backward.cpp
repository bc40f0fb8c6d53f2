#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/check.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

namespace ebb::cpu::EBB_ISA {
namespace {

// A worker's memory, in floats. Tiles are [key][query].
struct Scratch {
  Scratch(float* memory, const AttentionShape& s)
      : probabilities(memory),
        gradients(probabilities + kTile * kTile),
        factors(gradients + kTile * kTile),
        log_sum_exp(factors + kTile * kTile),
        delta(log_sum_exp + kTile),
        queries(delta + kTile),
        dout(queries + kTile * s.head_size) {}

  static std::int64_t floats(const AttentionShape& s) {
    return 3 * kTile * kTile + 2 * kTile + 2 * kTile * s.head_size;
  }

  float* probabilities;
  float* gradients;  // Of the probabilities, then of the scores.
  float* factors;    // Of dropout.
  float* log_sum_exp;
  float* delta;    // dout . out, for each query.
  float* queries;  // [column][query], scaled.
  float* dout;     // [column][query].
};

// What one sample's head, or its gradient, is read from and written to.
struct Head {
  const float* qkv;  // The sample's first token.
  const float* out;  // And that of its outputs, at the head's first column.
  const float* dout;
  const float* log_sum_exp;
  float* dqkv;
};

float dot(std::int64_t count, const float* a, const float* b) {
  return sum_terms(count, [=](auto access, std::int64_t i) {
    return access.load(a + i) * access.load(b + i);
  });
}

// From scores and the gradients of the dropped probabilities: the gradients of the scores,
// less the softmax scale, and the dropped probabilities.
void tile_gradients(std::int64_t keys, bool drop, const Scratch& w) {
  for (std::int64_t q = 0; q < kTile; q += kLanes) {
    const Vector log_sum_exp = load(w.log_sum_exp + q);
    const Vector delta = load(w.delta + q);
    for (std::int64_t i = q; i < keys * kTile; i += kTile) {
      const Vector p = exp(load(w.probabilities + i) - log_sum_exp);
      const Vector factor = drop ? load(w.factors + i) : broadcast(1.0F);
      store(w.probabilities + i, p * factor);
      store(w.gradients + i, p * (load(w.gradients + i) * factor - delta));
    }
  }
}

// The queries [place.query, + queries) of one head: their gradients, and what they add to
// those of keys and values.
void backward_tile(const AttentionShape& s, const Dropout& dropout, TilePlace place,
                   std::int64_t queries, const Head& head, const Scratch& w) {
  const AttentionLayout at(s);
  const std::int64_t d = s.head_size;
  const std::int64_t kv = place.head / at.group * d;
  const float* q_rows = head.qkv + place.query * at.row + place.head * d;
  float* dq_rows = head.dqkv + place.query * at.row + place.head * d;
  const float* out = head.out + place.query * at.out_row;
  const float* dout = head.dout + place.query * at.out_row;
  pack_transposed(queries, d, q_rows, at.row, at.scale, w.queries);
  pack_transposed(queries, d, dout, at.out_row, 1.0F, w.dout);
  for (std::int64_t q = 0; q < kTile; ++q) {
    const bool there = q < queries;
    w.log_sum_exp[q] = there ? head.log_sum_exp[place.query + q] : 0.0F;
    w.delta[q] = there ? dot(d, out + q * at.out_row, dout + q * at.out_row) : 0.0F;
  }
  const bool drop = drop_threshold(dropout.probability) > 0;
  const std::int64_t end = s.causal ? place.query + queries : s.seq;
  for (place.key = 0; place.key < end; place.key += kTile) {
    const std::int64_t keys = end - place.key < kTile ? end - place.key : kTile;
    const float* tokens = head.qkv + place.key * at.row;
    float* d_tokens = head.dqkv + place.key * at.row;
    tile_product(keys, kTile, d, {tokens + at.keys + kv, at.row, 1}, w.queries, kTile,
                 w.probabilities, kTile, false);
    if (s.causal && place.key + keys > place.query) {
      mask_future(keys, place.key - place.query, w.probabilities);
    }
    tile_product(keys, kTile, d, {tokens + at.values + kv, at.row, 1}, w.dout, kTile,
                 w.gradients, kTile, false);
    if (drop) dropout_factors(s, dropout, place, queries, keys, w.factors);
    tile_gradients(keys, drop, w);
    // Gradients of keys and values: the first queries to see a key begin their sums.
    const bool begin = place.head % at.group == 0 &&
                       (s.causal ? place.key == place.query : place.query == 0);
    tile_product(keys, d, queries, {w.probabilities, kTile, 1}, dout, at.out_row,
                 d_tokens + at.values + kv, at.row, !begin);
    for (std::int64_t i = 0; i < keys * kTile; i += kLanes) {
      store(w.gradients + i, load(w.gradients + i) * at.scale);
    }
    tile_product(keys, d, queries, {w.gradients, kTile, 1}, q_rows, at.row,
                 d_tokens + at.keys + kv, at.row, !begin);
    tile_product(queries, d, keys, {w.gradients, 1, kTile}, tokens + at.keys + kv, at.row,
                 dq_rows, at.row, place.key > 0);
  }
}

}  // namespace

std::size_t attention_backward_workspace(const AttentionShape& s) {
  require_attention(s, "attention_backward");
  return static_cast<std::size_t>(cpu_threads() * Scratch::floats(s)) * sizeof(float);
}

void attention_backward(const AttentionShape& s, const Dropout& dropout, const void* qkv,
                        const void* out, const float* log_sum_exp, const void* dout,
                        void* dqkv, Workspace workspace, NativeQueue /*queue*/) {
  require_workspace(workspace, attention_backward_workspace(s), "attention_backward");
  require_probability(dropout.probability, "attention_backward");
  const AttentionLayout at(s);
  // A task owns a key head, and with it every sum that several queries add to.
  parallel_tasks(s.batch * s.kv_heads, [&](std::int64_t task, int worker) {
    const Scratch scratch(static_cast<float*>(workspace.data) + worker * Scratch::floats(s),
                          s);
    const std::int64_t sample = task / s.kv_heads;
    const std::int64_t kv = task % s.kv_heads;
    float* d_base = static_cast<float*>(dqkv) + sample * s.seq * at.row;
    for (std::int64_t h = kv * at.group; h < (kv + 1) * at.group; ++h) {
      const std::int64_t outputs = sample * s.seq * at.out_row + h * s.head_size;
      const Head head = {
          .qkv = static_cast<const float*>(qkv) + sample * s.seq * at.row,
          .out = static_cast<const float*>(out) + outputs,
          .dout = static_cast<const float*>(dout) + outputs,
          .log_sum_exp = log_sum_exp + (sample * s.heads + h) * s.seq,
          .dqkv = d_base,
      };
      for (std::int64_t query = 0; query < s.seq; query += kTile) {
        backward_tile(s, dropout, {.sample = sample, .head = h, .query = query, .key = 0},
                      s.seq - query < kTile ? s.seq - query : kTile, head, scratch);
      }
    }
  });
}

}  // namespace ebb::cpu::EBB_ISA
