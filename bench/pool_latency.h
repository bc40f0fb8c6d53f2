// How long the pinned pool takes to lend a block and to take it back.

#pragma once

#include <cstddef>

namespace ebb::bench {

struct PoolLoad {
  std::size_t threads = 1;
  std::size_t blocks = 10'000;     // Lent at a time, by all threads together.
  std::size_t rounds = 1'000'000;  // Of one block back and one lent, by all together.
  std::size_t fence_lag = 0;  // A block's fence is done so many rounds later; 0: at once.
};

struct Percentiles {
  double p50_seconds = 0;
  double p99_seconds = 0;
  double p999_seconds = 0;
};

struct PoolLatency {
  double clock_seconds = 0;  // What reading the clock takes, left out of the rest.
  Percentiles allocate;
  Percentiles release;
};

// Each call is timed on its own by the thread that makes it, with the steady clock, and its
// wait for other threads counts. Sizes are log-uniform from 512 B to 256 MiB, without
// memory behind them.
PoolLatency measure_pool_latency(const PoolLoad& load);

}  // namespace ebb::bench
