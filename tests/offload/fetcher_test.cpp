#include "offload/engine/fetcher.h"

#include "gtest/gtest.h"

#include "allocator/error.h"
#include "tests/support/offload_world.h"

namespace ebb::offload {
namespace {

using namespace test;

class FetcherTest : public testing::Test {
 protected:
  explicit FetcherTest(std::size_t limit = 64 * kMiB) : world({.limit_bytes = limit}) {}
  ~FetcherTest() override { block.device.reset(); }

  // A block of 64 KiB, 100 bytes into its storage, that is in the store only.
  void park() {
    const Tensor whole = world.make(5, 128 * kKiB, 1e-6);
    block.key = {whole.storage()->id(), 0, 100, 64 * kKiB};
    block.stored = world.store->put(whole.storage()->address() + 100, 64 * kKiB,
                                    whole.storage()->last_write());
    whole.storage()->used_until(block.stored->stored());
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
  park();
  ASSERT_TRUE(fetcher.prefetch(block, world.device.current_stream().record()));
  EXPECT_EQ((block.device->address() + block.device_begin) % 512, 100U);
  look();
}

TEST_F(FetcherTest, FetchesAtOnceBeforeAllPrefetches) {
  park();
  fetcher.fetch_now(block, world.device.current_stream().record());
  look();
}

TEST_F(FetcherTest, TakesNoMemoryBeforeComputeGetsToThePoint) {
  park();
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
  park();
  const Tensor hog = world.make(7, 224 * kKiB, 1e-6);
  EXPECT_FALSE(fetcher.prefetch(block, world.device.current_stream().record()));
  EXPECT_EQ(block.device, nullptr);
  EXPECT_THROW(fetcher.fetch_now(block, world.device.current_stream().record()), Error);
  world.device.synchronize();
}

}  // namespace
}  // namespace ebb::offload
