#include "kernels/cpu/attention_tiles.h"

namespace ebb::cpu::EBB_ISA {
namespace {

// Rows of probabilities begin with a block of numbers: a lane is a query, and the four
// numbers of its block are for four keys.
void by_blocks(const AttentionShape& s, const Dropout& dropout, const TilePlace& place,
               std::int64_t keys, float* factors) {
  const std::uint32_t threshold = drop_threshold(dropout.probability);
  const Vector keep = broadcast(1.0F / (1.0F - dropout.probability));
  for (std::int64_t q = 0; q < kTile; q += kLanes) {
    std::uint64_t first[kLanes];
    for (std::int64_t i = 0; i < kLanes; ++i) {
      const std::int64_t row = place.head * s.seq + place.query + q + i;
      first[i] = static_cast<std::uint64_t>((row * s.seq + place.key) / 4);
    }
    for (std::int64_t key = 0; key < keys; key += 4) {
      Words low;
      Words high;
      for (std::int64_t i = 0; i < kLanes; ++i) {
        const std::uint64_t block = first[i] + static_cast<std::uint64_t>(key / 4);
        low[i] = static_cast<std::uint32_t>(block);
        high[i] = static_cast<std::uint32_t>(block >> 32);
      }
      const RandomWords numbers =
          random_words(dropout.key, static_cast<std::uint64_t>(place.sample), low, high);
      for (std::int64_t w = 0; w < 4; ++w) {
        store(factors + (key + w) * kTile + q,
              numbers.word[w] >= threshold ? keep : Vector{});
      }
    }
  }
}

// Any other length of sequence.
void by_elements(const AttentionShape& s, const Dropout& dropout, const TilePlace& place,
                 std::int64_t queries, std::int64_t keys, float* factors) {
  const std::uint32_t threshold = drop_threshold(dropout.probability);
  const float keep = 1.0F / (1.0F - dropout.probability);
  std::uint32_t numbers[kTile + 4 + 4 * kLanes];
  for (std::int64_t q = 0; q < queries; ++q) {
    const std::int64_t row = place.head * s.seq + place.query + q;
    const std::int64_t element = row * s.seq + place.key;
    const std::int64_t skip = element % 4;
    random_numbers(dropout.key, static_cast<std::uint64_t>(place.sample),
                   static_cast<std::uint64_t>(element / 4), keys + skip, numbers);
    for (std::int64_t key = 0; key < keys; ++key) {
      factors[key * kTile + q] = numbers[skip + key] >= threshold ? keep : 0.0F;
    }
  }
  for (std::int64_t q = queries; q < kTile; ++q) {
    for (std::int64_t key = 0; key < keys; ++key) factors[key * kTile + q] = 0;
  }
}

}  // namespace

void dropout_factors(const AttentionShape& shape, const Dropout& dropout,
                     const TilePlace& place, std::int64_t queries, std::int64_t keys,
                     float* factors) {
  // Tiles begin at multiples of 4, so only the length of the sequence matters.
  if (shape.seq % 4 == 0) {
    by_blocks(shape, dropout, place, keys, factors);
  } else {
    by_elements(shape, dropout, place, queries, keys, factors);
  }
}

}  // namespace ebb::cpu::EBB_ISA
