// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011). The same numbers on every device, thread count and number of
// ranks, because each is a function of what it is for and of nothing else.

#pragma once

#include <array>
#include <cstdint>

namespace ebb {

// What a random number is for. Element e of sample s draws lane e % 4 of the block e / 4.
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;          // Training step.
  std::uint32_t op = 0;            // The n-th random op of a forward pass.
  std::uint64_t first_sample = 0;  // Global index of the batch's first sample.
};

using PhiloxBlock = std::array<std::uint32_t, 4>;

constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::uint32_t key0,
                                 std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key0,
               static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key1,
               static_cast<std::uint32_t>(a)};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return counter;
}

// The four numbers of block `block` (elements 4 * block ... 4 * block + 3) of sample
// `sample` of the batch.
constexpr PhiloxBlock random_block(const RandomKey& key, std::uint64_t sample,
                                   std::uint64_t block) {
  const std::uint64_t global = key.first_sample + sample;
  return philox4x32({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(global),
                     (static_cast<std::uint32_t>(block >> 32) << 16) ^
                         static_cast<std::uint32_t>(global >> 32) ^ (key.op << 8),
                     key.step},
                    static_cast<std::uint32_t>(key.seed),
                    static_cast<std::uint32_t>(key.seed >> 32));
}

// An element is dropped if its number is below this.
constexpr std::uint32_t drop_threshold(float probability) {
  return static_cast<std::uint32_t>(static_cast<double>(probability) * 4294967296.0);
}

}  // namespace ebb
