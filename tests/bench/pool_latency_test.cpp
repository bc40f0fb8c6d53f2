#include "bench/pool_latency.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace ebb::bench {
namespace {

// That it measures, not how fast it is: a test is never timed.
TEST(PoolLatency, OrdersItsPercentilesOnAnyLoad) {
  for (const std::size_t threads : {1U, 3U}) {
    for (const std::size_t fence_lag : {0U, 16U}) {
      const PoolLatency latency = measure_pool_latency(
          {.threads = threads, .blocks = 300, .rounds = 3'000, .fence_lag = fence_lag});
      for (const Percentiles& call : {latency.allocate, latency.release}) {
        EXPECT_GE(call.p50_seconds, 0);
        EXPECT_LE(call.p50_seconds, call.p99_seconds);
        EXPECT_LE(call.p99_seconds, call.p999_seconds);
        EXPECT_GT(call.p999_seconds, 0);
      }
      EXPECT_GT(latency.clock_seconds, 0);
    }
  }
}

TEST(PoolLatency, RefusesALoadWithoutABlockForEachThread) {
  EXPECT_THAT([] { measure_pool_latency({.threads = 4, .blocks = 3}); },
              test::fails_with(absl::StatusCode::kInvalidArgument, "needs a block"));
}

}  // namespace
}  // namespace ebb::bench
