// How many bytes a pool has to have for those that were asked of it.

#pragma once

#include <cstddef>

#include "bench/pool_trace.h"

namespace ebb::bench {

struct PoolWaste {
  std::size_t requested_bytes = 0;  // At the peak, blocks that wait for a fence included.
  std::size_t reserved_bytes = 0;
  std::size_t steps = 0;
  std::size_t last_growth = 0;     // The last step that ended with growth, from 1; 0: none.
  std::size_t unserved_bytes = 0;  // Of requests without room after the first step.

  double ratio() const {
    return static_cast<double>(reserved_bytes) / static_cast<double>(requested_bytes);
  }
};

// With PinnedPool, which begins empty and grows as the engine lets it: at the end of each
// step, by what was missing in it at most at a time. No memory is behind it.
PoolWaste waste_of_pinned_pool(const PoolEvents& events);

// With the policy of PyTorch's CachingHostAllocator (aten/src/ATen/core): sizes are rounded
// up to a power of two, a block is lent again for that size only, once its events are done,
// and whatever is missing is pinned at once.
PoolWaste waste_of_powers_of_two(const PoolEvents& events);

}  // namespace ebb::bench
