#include "offload/engine/fetcher.h"

#include <memory>
#include <utility>

#include "gtest/gtest.h"

#include "allocator/error.h"
#include "tests/support/offload_world.h"
#include "tests/support/sim_orders.h"

namespace ebb::offload {
namespace {

using namespace test;

void park(Block& block, std::unique_ptr<StoredBlock> stored) {
  block.pieces.push_back({.span = block.span, .stored = std::move(stored)});
}

class FetcherTest : public testing::Test {
 protected:
  explicit FetcherTest(std::size_t limit = 64 * kMiB) : world({.limit_bytes = limit}) {}
  ~FetcherTest() override { block.device.reset(); }

  // A block of 64 KiB, 100 bytes into its storage, that is in the store only.
  void park_one() {
    const Tensor whole = world.make(5, 128 * kKiB, 1e-6);
    block.span = {100, 64 * kKiB};
    park(block, world.store->put(whole.storage()->address() + 100, 64 * kKiB,
                                 whole.storage()->last_write()));
    whole.storage()->used_until(block.pieces.front().stored->stored());
  }
  void look() {
    world.device.current_stream().wait(block.fetched,
                                       {device::StallCause::kH2DLate, "test"});
    world.check(Tensor::over(block.device, {16 * 1024}, DType::kI32,
                             static_cast<std::int64_t>(block.device_begin / 4)),
                5, 1e-6, device::Phase::kBackward, 25);
    world.device.synchronize();
    EXPECT_EQ(world.wrong_words, 0U);
  }

  World world;
  Block block;
  Fetcher fetcher{world.device};
};

TEST_F(FetcherTest, BringsABlockBackAtTheSameOffsetWithinItsAlignment) {
  park_one();
  ASSERT_TRUE(fetcher.prefetch(block, world.device.current_stream().record()));
  EXPECT_EQ((block.device->address() + block.device_begin) % 512, 100U);
  look();
}

TEST_F(FetcherTest, FetchesAtOnceBeforeAllPrefetches) {
  park_one();
  fetcher.fetch_now(block, world.device.current_stream().record());
  look();
}

TEST_F(FetcherTest, TakesNoMemoryBeforeComputeGetsToThePoint) {
  park_one();
  world.make(6, 1024, 5e-3);  // Long work;
  const Event point = world.device.current_stream().record();
  ASSERT_TRUE(fetcher.prefetch(block, point));  // the point is behind it.
  world.device.synchronize();
  EXPECT_GE(*world.device.ended_at(block.fetched), *world.device.ended_at(point));
}

class SmallFetcherTest : public FetcherTest {
 protected:
  SmallFetcherTest() : FetcherTest(256 * kKiB) {}
};

TEST_F(SmallFetcherTest, SaysWhenThereIsNoMemory) {
  park_one();
  const Tensor hog = world.make(7, 224 * kKiB, 1e-6);
  EXPECT_FALSE(fetcher.prefetch(block, world.device.current_stream().record()));
  EXPECT_EQ(block.device, nullptr);
  EXPECT_THROW(fetcher.fetch_now(block, world.device.current_stream().record()), Error);
  world.device.synchronize();
}

// Without the checker, which orders what it does to memory itself: wrong bytes would tell.
TEST(BusyFetcherTest, APrefetchWaitsForWhatTheGateHasWaitedForOnBehalfOfAnUrgentFetch) {
  for (const device::Order& order : twenty_four_orders()) {
    World world({.order = order,
                 .check = false,
                 .limit_bytes = 256 * kKiB,
                 .d2h_bytes_per_second = 1e8});
    Fetcher fetcher(world.device);
    const auto put = [&](std::uint64_t seed, std::size_t bytes) {
      const Tensor tensor = world.make(seed, bytes, 1e-6);
      auto stored = world.store->put(tensor.storage()->address(), bytes,
                                     tensor.storage()->last_write());
      tensor.storage()->used_until(stored->stored());
      return stored;
    };
    Block urgent;
    Block ahead;
    urgent.span.bytes = ahead.span.bytes = 64 * kKiB;
    park(urgent, put(1, 64 * kKiB));
    park(ahead, put(2, 64 * kKiB));
    world.device.synchronize();
    // The whole device is a tensor that is copied out: its memory comes with that to wait
    // for. Once the gate has waited, the rest of it comes without.
    Block out;
    out.span.bytes = 256 * kKiB;
    park(out, put(3, 256 * kKiB));
    const Event point = world.device.current_stream().record();
    fetcher.fetch_now(urgent, point);
    ASSERT_TRUE(fetcher.prefetch(ahead, point));
    world.device.synchronize();
    urgent.device.reset();
    ahead.device.reset();
    fetcher.fetch_now(out, world.device.current_stream().record());
    world.device.current_stream().wait(out.fetched, {});
    world.check(Tensor::over(out.device, {64 * 1024}, DType::kI32), 3, 1e-6);
    world.device.synchronize();
    EXPECT_EQ(world.wrong_words, 0U) << order_name(order);
    out.device.reset();
  }
}

}  // namespace
}  // namespace ebb::offload
