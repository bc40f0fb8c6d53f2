// What attention forward and backward share: tiles of 64 queries by 64 keys.
//
// A tile of scores lies transposed, [key][query], so that vectors run over queries: maxima
// and sums over keys need no shuffles, the four numbers of a Philox block fall on four
// rows, and keys and values are read where they lie.

#pragma once

#include <cstdint>

#include "kernels/cpu/random_vector.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/cpu/vector.h"
#include "kernels/kernels.h"

namespace ebb::cpu::EBB_ISA {

inline constexpr std::int64_t kTile = 64;

// The sizes and strides that both directions need, in elements.
struct AttentionLayout {
  explicit AttentionLayout(const AttentionShape& s)
      : row((s.heads + 2 * s.kv_heads) * s.head_size),
        out_row(s.heads * s.head_size),
        keys(s.heads * s.head_size),
        values((s.heads + s.kv_heads) * s.head_size),
        group(s.heads / s.kv_heads),
        tiles((s.seq + kTile - 1) / kTile),
        scale(1.0F / __builtin_sqrtf(static_cast<float>(s.head_size))) {}

  std::int64_t row;      // From one token to the next, in qkv.
  std::int64_t out_row;  // And in out.
  std::int64_t keys;     // Where in a row of qkv the keys begin.
  std::int64_t values;
  std::int64_t group;  // Query heads for each key head.
  std::int64_t tiles;  // Of queries, and of keys.
  float scale;
};

// to[column][query] = from[query][column] * scale for a tile of queries, with 0 behind the
// last one. Reads in order: rows lie kilobytes apart, the tile fits the first cache.
inline void pack_transposed(std::int64_t queries, std::int64_t columns, const float* from,
                            std::int64_t from_row, float scale, float* to) {
  for (std::int64_t q = 0; q < queries; ++q) {
    const float* row = from + q * from_row;
    for (std::int64_t c = 0; c < columns; ++c) to[c * kTile + q] = row[c] * scale;
  }
  for (std::int64_t q = queries; q < kTile; ++q) {
    for (std::int64_t c = 0; c < columns; ++c) to[c * kTile + q] = 0;
  }
}

// Scores of keys that lie behind their query become -infinity. `ahead` is the first key's
// place less the first query's.
inline void mask_future(std::int64_t keys, std::int64_t ahead, float* scores) {
  for (std::int64_t key = 0; key < keys; ++key) {
    const std::int64_t hidden = ahead + key < kTile ? ahead + key : kTile;
    for (std::int64_t q = 0; q < hidden; ++q) scores[key * kTile + q] = -__builtin_inff();
  }
}

// Where a tile is among the probabilities of a head.
struct TilePlace {
  std::int64_t sample;
  std::int64_t head;
  std::int64_t query;
  std::int64_t key;
};

// factors[key][query] = 1 / (1 - probability), or 0 where the probability is dropped.
void dropout_factors(const AttentionShape& shape, const Dropout& dropout,
                     const TilePlace& place, std::int64_t queries, std::int64_t keys,
                     float* factors);

}  // namespace ebb::cpu::EBB_ISA
