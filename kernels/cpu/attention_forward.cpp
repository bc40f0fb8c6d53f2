#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/check.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

namespace ebb::cpu::EBB_ISA {
namespace {

// A worker's memory, in floats.
struct Scratch {
  explicit Scratch(float* memory)
      : scores(memory),
        factors(scores + kTile * kTile),
        highest(factors + kTile * kTile),
        total(highest + kTile),
        shrink(total + kTile),
        queries(shrink + kTile) {}

  static std::int64_t floats(const AttentionShape& s) {
    return 2 * kTile * kTile + 3 * kTile + kTile * s.head_size;
  }

  float* scores;   // [key][query]; then the probabilities, not yet divided by `total`.
  float* factors;  // Of dropout.
  float* highest;  // Of the scores so far, for each query.
  float* total;    // Of e^(score - highest).
  float* shrink;   // e^(highest before - highest now).
  float* queries;  // [column][query], scaled.
};

// Takes the scores of a tile into `highest` and `total`, and makes them e^(score -
// highest).
void soften(std::int64_t keys, const Scratch& w) {
  for (std::int64_t q = 0; q < kTile; q += kLanes) {
    const Vector before = load(w.highest + q);
    Vector highest = before;
    for (std::int64_t key = 0; key < keys; ++key) {
      highest = max(highest, load(w.scores + key * kTile + q));
    }
    Vector total{};
    for (std::int64_t key = 0; key < keys; ++key) {
      float* score = w.scores + key * kTile + q;
      const Vector e = exp(load(score) - highest);
      total += e;
      store(score, e);
    }
    const Vector shrink = exp(before - highest);
    store(w.shrink + q, shrink);
    store(w.total + q, load(w.total + q) * shrink + total);
    store(w.highest + q, highest);
  }
}

void multiply_tile(std::int64_t keys, const float* factors, float* scores) {
  for (std::int64_t i = 0; i < keys * kTile; i += kLanes) {
    store(scores + i, load(scores + i) * load(factors + i));
  }
}

void scale_row(std::int64_t columns, float by, float* row) {
  for_vectors(columns, [=](auto access, std::int64_t i) {
    access.store(row + i, access.load(row + i) * by);
  });
}

// The queries [place.query, + queries) of one head against all keys that they see.
void forward_tile(const AttentionShape& s, const Dropout& dropout, TilePlace place,
                  std::int64_t queries, const float* qkv, float* out, float* log_sum_exp,
                  const Scratch& w) {
  const AttentionLayout at(s);
  const std::int64_t d = s.head_size;
  const float* base = qkv + place.sample * s.seq * at.row;
  const std::int64_t kv = place.head / at.group * d;
  pack_transposed(queries, d, base + place.query * at.row + place.head * d, at.row,
                  at.scale, w.queries);
  for (std::int64_t q = 0; q < kTile; ++q) {
    w.highest[q] = -__builtin_inff();
    w.total[q] = 0;
  }
  const std::int64_t end = s.causal ? place.query + queries : s.seq;
  for (place.key = 0; place.key < end; place.key += kTile) {
    const std::int64_t keys = end - place.key < kTile ? end - place.key : kTile;
    const float* tokens = base + place.key * at.row;
    tile_product(keys, kTile, d, {tokens + at.keys + kv, at.row, 1}, w.queries, kTile,
                 w.scores, kTile, false);
    if (s.causal && place.key + keys > place.query) {
      mask_future(keys, place.key - place.query, w.scores);
    }
    soften(keys, w);
    if (drop_threshold(dropout.probability) > 0) {
      dropout_factors(s, dropout, place, queries, keys, w.factors);
      multiply_tile(keys, w.factors, w.scores);
    }
    for (std::int64_t q = 0; q < queries && place.key > 0; ++q) {
      scale_row(d, w.shrink[q], out + q * at.out_row);
    }
    tile_product(queries, d, keys, {w.scores, 1, kTile}, tokens + at.values + kv, at.row,
                 out, at.out_row, place.key > 0);
  }
  for (std::int64_t q = 0; q < queries; ++q) {
    scale_row(d, 1.0F / w.total[q], out + q * at.out_row);
    log_sum_exp[q] = w.highest[q] + __builtin_logf(w.total[q]);
  }
}

}  // namespace

std::size_t attention_forward_workspace(const AttentionShape& s) {
  require_attention(s, "attention_forward");
  return static_cast<std::size_t>(cpu_threads() * Scratch::floats(s)) * sizeof(float);
}

void attention_forward(const AttentionShape& s, const Dropout& dropout, const void* qkv,
                       void* out, float* log_sum_exp, Workspace workspace,
                       NativeQueue /*queue*/) {
  require_workspace(workspace, attention_forward_workspace(s), "attention_forward");
  require_probability(dropout.probability, "attention_forward");
  const AttentionLayout at(s);
  const std::int64_t heads = s.batch * s.heads;
  // The last tiles see the most keys: they go first.
  parallel_tasks(heads * at.tiles, [&](std::int64_t task, int worker) {
    const Scratch scratch(static_cast<float*>(workspace.data) +
                          worker * Scratch::floats(s));
    const std::int64_t query = (at.tiles - 1 - task / heads) * kTile;
    const std::int64_t sample = task % heads / s.heads;
    const std::int64_t head = task % s.heads;
    forward_tile(s, dropout, {.sample = sample, .head = head, .query = query, .key = 0},
                 s.seq - query < kTile ? s.seq - query : kTile,
                 static_cast<const float*>(qkv),
                 static_cast<float*>(out) + (sample * s.seq + query) * at.out_row +
                     head * s.head_size,
                 log_sum_exp + (sample * s.heads + head) * s.seq + query, scratch);
  });
}

}  // namespace ebb::cpu::EBB_ISA
