// kernels/philox.h for as many blocks at once as a vector has lanes.

#pragma once

#include <cstdint>

#include "kernels/cpu/vector.h"
#include "kernels/philox.h"

namespace ebb::cpu::EBB_ISA {

// Lane i of word w is number w of the i-th block.
struct RandomWords {
  Words word[4];
};

// high, low = x * factor, 64 bits for each lane.
[[gnu::always_inline]] inline void multiply(Words x, std::uint32_t factor, Words& high,
                                            Words& low) {
  // NOLINTNEXTLINE(modernize-use-using)
  typedef std::uint64_t Longs __attribute__((vector_size(sizeof(Words))));
  const Longs even = ((Longs)x & 0xFFFFFFFFU) * std::uint64_t{factor};
  const Longs odd = ((Longs)x >> 32) * std::uint64_t{factor};
  low = x * factor;
  high = (Words)((even >> 32) | (odd & 0xFFFFFFFF00000000U));
}

// random_block(key, sample, block), where block = low + 2^32 high in each lane.
[[gnu::always_inline]] inline RandomWords random_words(const RandomKey& key,
                                                       std::uint64_t sample, Words low,
                                                       Words high) {
  const std::uint64_t global = key.first_sample + sample;
  const auto low_sample = static_cast<std::uint32_t>(global);
  const auto third = static_cast<std::uint32_t>(global >> 32) ^ (key.op << 8);
  Words c0 = low;
  Words c1 = Words{} + low_sample;
  Words c2 = (high << 16) ^ third;
  Words c3 = Words{} + key.step;
  auto key0 = static_cast<std::uint32_t>(key.seed);
  auto key1 = static_cast<std::uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    Words a_high;
    Words a_low;
    Words b_high;
    Words b_low;
    multiply(c0, 0xD2511F53U, a_high, a_low);
    multiply(c2, 0xCD9E8D57U, b_high, b_low);
    c0 = b_high ^ c1 ^ key0;
    c1 = b_low;
    c2 = a_high ^ c3 ^ key1;
    c3 = a_low;
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return {{c0, c1, c2, c3}};
}

// The numbers of elements [4 first_block, 4 first_block + count) of a sample, with room in
// `numbers` for whole vectors of blocks: 4 * kLanes more than `count`.
inline void random_numbers(const RandomKey& key, std::uint64_t sample,
                           std::uint64_t first_block, std::int64_t count,
                           std::uint32_t* numbers) {
  for (std::int64_t begin = 0; begin < count; begin += 4 * kLanes) {
    Words low{};
    Words high{};
    for (std::int64_t i = 0; i < kLanes; ++i) {
      const std::uint64_t block = first_block + static_cast<std::uint64_t>(begin / 4 + i);
      low[i] = static_cast<std::uint32_t>(block);
      high[i] = static_cast<std::uint32_t>(block >> 32);
    }
    const RandomWords words = random_words(key, sample, low, high);
    std::uint32_t lanes[4][kLanes];
    std::memcpy(lanes, &words, sizeof lanes);
    for (std::int64_t i = 0; i < kLanes; ++i) {
      for (std::int64_t w = 0; w < 4; ++w) numbers[begin + 4 * i + w] = lanes[w][i];
    }
  }
}

}  // namespace ebb::cpu::EBB_ISA
