#include "allocator/pinned_pool.h"

#include <algorithm>
#include <array>
#include <barrier>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/fakes.h"

namespace ebb {
namespace {

using test::FakeHostMemory;
using test::ManualSource;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kGranule = PinnedPool::kGranularityBytes;

class PinnedPoolTest : public ::testing::Test {
 protected:
  FakeHostMemory memory_;
  ManualSource copy_;
  PinnedPool pool_{memory_, 16 * kPage};
};

TEST_F(PinnedPoolTest, LendsExactSizesOfMemoryThatIsTheCallersAlone) {
  pool_.reserve(kPage);
  std::vector<PinnedPool::Block> blocks;
  for (unsigned char i = 0; i < 8; ++i) {
    blocks.push_back(pool_.allocate(kGranule - i));
    ASSERT_TRUE(blocks.back());
    EXPECT_EQ(blocks.back().size(), kGranule - i);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back().data()) % kGranule, 0U);
    std::fill_n(blocks.back().data(), kGranule - i, std::byte{i});
  }
  EXPECT_FALSE(pool_.allocate(1));
  for (unsigned char i = 0; i < 8; ++i) {
    EXPECT_EQ(std::count(blocks[i].data(), blocks[i].data() + kGranule - i, std::byte{i}),
              static_cast<std::ptrdiff_t>(kGranule - i));
  }
}

TEST_F(PinnedPoolTest, LendsAGranuleForNothing) {
  pool_.reserve(kPage);
  const auto block = pool_.allocate(0);
  EXPECT_TRUE(block);
  EXPECT_EQ(block.size(), 0U);
  EXPECT_EQ(pool_.stats().lent_bytes, kGranule);
}

TEST_F(PinnedPoolTest, LendsABlockAgainOnceItIsGivenBack) {
  pool_.reserve(kPage);
  const std::byte* data = pool_.allocate(kPage).data();
  auto block = pool_.allocate(kPage);
  ASSERT_TRUE(block);
  EXPECT_EQ(block.data(), data);
  block.release({});
  EXPECT_FALSE(block);
  EXPECT_EQ(block.size(), 0U);
  block.release({});
  EXPECT_TRUE(pool_.allocate(kPage));
}

TEST_F(PinnedPoolTest, MovesABlockWithoutGivingItBack) {
  pool_.reserve(2 * kPage);
  auto a = pool_.allocate(kPage);
  auto b = std::move(a);
  EXPECT_EQ(pool_.stats().lent_bytes, kPage);
  b = pool_.allocate(kGranule);
  EXPECT_EQ(b.size(), kGranule);
}

TEST_F(PinnedPoolTest, KeepsABlockUntilEveryEventOfItsFenceIsDone) {
  pool_.reserve(kPage);
  ManualSource kernel;
  Fence last_use(copy_.at(1));
  last_use.add(kernel.at(1));
  pool_.allocate(kPage).release(last_use);
  EXPECT_FALSE(pool_.allocate(1));
  kernel.reach(1);
  EXPECT_FALSE(pool_.allocate(1));
  copy_.reach(1);
  EXPECT_TRUE(pool_.allocate(kPage));
}

TEST_F(PinnedPoolTest, LetsABlockWaitForItsOwnFenceOnly) {
  pool_.reserve(2 * kPage);
  ManualSource kernel;
  auto slow = pool_.allocate(kPage);
  auto fast = pool_.allocate(kPage);
  const std::byte* data = fast.data();
  slow.release(Fence(copy_.at(1)));
  fast.release(Fence(kernel.at(1)));
  kernel.reach(1);
  EXPECT_EQ(pool_.allocate(kPage).data(), data);
  copy_.reach(1);
}

TEST_F(PinnedPoolTest, TakesBackWhatIsDoneBehindAFenceThatIsNot) {
  pool_.reserve(8 * kPage);
  ManualSource kernel;
  auto slow = pool_.allocate(kPage);
  std::array<PinnedPool::Block, 7> others;
  for (PinnedPool::Block& block : others) block = pool_.allocate(kPage);
  slow.release(Fence(kernel.at(1)));
  for (std::size_t i = 0; i < 6; ++i) others[i].release(Fence(copy_.at(1)));
  EXPECT_EQ(pool_.stats().retired_bytes, 7 * kPage);
  copy_.reach(1);
  // A few at a time, and from the oldest on again.
  others[6].release({});
  EXPECT_LT(pool_.stats().retired_bytes, 7 * kPage);
  for (int i = 0; i < 2; ++i) pool_.allocate(kPage).release({});
  EXPECT_EQ(pool_.stats().retired_bytes, kPage);
  kernel.reach(1);
  for (int i = 0; i < 2; ++i) pool_.allocate(kPage).release({});
  EXPECT_EQ(pool_.stats().retired_bytes, 0U);
}

TEST_F(PinnedPoolTest, CountsWhatIsLentAndWhatWaits) {
  pool_.reserve(4 * kPage);
  auto a = pool_.allocate(1000);
  auto b = pool_.allocate(600, Purpose::kOptimizer);
  a.release(Fence(copy_.at(1)));
  PinnedPool::Stats stats = pool_.stats();
  EXPECT_EQ(stats.lent_bytes, 1024U);
  EXPECT_EQ(stats.retired_bytes, 1024U);
  EXPECT_EQ(stats.requested_bytes, 1600U);
  EXPECT_EQ(stats.requested_by_purpose[Purpose::kActivations], 1000U);
  EXPECT_EQ(stats.requested_by_purpose[Purpose::kOptimizer], 600U);

  copy_.reach(1);
  pool_.collect();
  b.release({});
  stats = pool_.stats();
  EXPECT_EQ(stats.lent_bytes, 0U);
  EXPECT_EQ(stats.retired_bytes, 0U);
  EXPECT_EQ(stats.requested_bytes, 0U);
  EXPECT_EQ(stats.requested_by_purpose.total(), 0U);
  EXPECT_EQ(stats.peak_requested_bytes, 1600U);
  EXPECT_EQ(stats.peak_taken_bytes, 2048U) << "in granules: what a pool has to have";
  EXPECT_EQ(stats.peak_by_purpose[Purpose::kActivations], 1000U);
  EXPECT_EQ(stats.peak_by_purpose[Purpose::kOptimizer], 600U);

  const auto c = pool_.allocate(100, Purpose::kOptimizer);
  EXPECT_EQ(pool_.stats().peak_requested_bytes, 1600U);
  EXPECT_EQ(pool_.stats().peak_by_purpose[Purpose::kOptimizer], 600U);
}

TEST(PinnedPool, RefusesARequestThatNoSizeCanHold) {
  FakeHostMemory memory;
  PinnedPool pool(memory, std::numeric_limits<std::size_t>::max());
  pool.reserve(kPage);
  EXPECT_FALSE(pool.allocate(std::numeric_limits<std::size_t>::max()));
}

TEST(PinnedPool, WaitsForItsFencesWhenDestroyed) {
  FakeHostMemory memory;
  ManualSource copy;
  std::jthread device;
  {
    PinnedPool pool(memory, kPage);
    pool.reserve(kPage);
    auto block = pool.allocate(kPage);
    device = std::jthread([data = block.data(), &copy] {
      data[0] = std::byte{1};  // A use after free, unless the pool waits.
      copy.reach(1);
    });
    block.release(Fence(copy.at(1)));
  }
  EXPECT_TRUE(copy.at(1).done());
}

// Ends when somebody waits for it.
class LazySource final : public EventSource {
 public:
  bool reached(std::uint64_t ticket) const noexcept override { return ticket <= ended_; }
  void await(std::uint64_t ticket) const noexcept override {
    ended_ = std::max(ended_, ticket);
  }

 private:
  mutable std::uint64_t ended_ = 0;
};

TEST(PinnedPool, UnpinsNothingBeforeItsLastFence) {
  const LazySource copy;
  class Memory final : public HostMemory {
   public:
    explicit Memory(const Event& last) : last_(last) {}
    std::byte* pin(std::size_t bytes) override { return memory_.pin(bytes); }
    void unpin(std::byte* data, std::size_t bytes) noexcept override {
      EXPECT_TRUE(last_.done());
      memory_.unpin(data, bytes);
    }

   private:
    const Event last_;
    FakeHostMemory memory_;
  } memory{Event(copy, 3)};
  PinnedPool pool(memory, kPage);
  pool.reserve(kPage);
  for (std::uint64_t ticket = 1; ticket <= 3; ++ticket) {
    pool.allocate(kGranule).release(Fence(Event(copy, ticket)));
  }
}

TEST(PinnedPool, IsSharedByThreads) {
  FakeHostMemory memory;
  ManualSource copy;
  PinnedPool pool(memory, 64 * kPage);
  pool.reserve(32 * kPage);
  {
    std::barrier together(4);  // Before the threads, so that it outlives them.
    std::array<std::jthread, 4> threads;
    unsigned char next = 0;
    for (std::jthread& thread : threads) {
      thread = std::jthread([&, mark = std::byte{next++}] {
        std::mt19937 random(static_cast<unsigned>(mark));
        for (std::size_t i = 0; i < 50; ++i) {
          together.arrive_and_wait();  // Or earlier locks might order what follows.
          const std::size_t bytes = 1 + random() % (4 * kPage);
          auto block = pool.allocate(bytes, Purpose::kStaging);
          if (!block) continue;
          std::fill_n(block.data(), bytes, mark);
          std::this_thread::yield();
          EXPECT_EQ(std::count(block.data(), block.data() + bytes, mark),
                    static_cast<std::ptrdiff_t>(bytes));
          block.release(i % 2 == 0 ? Fence() : Fence(copy.at(1)));
          if (mark == std::byte{0}) copy.reach(1);
          if (mark == std::byte{1}) pool.reserve(32 * kPage + i * kPage / 4);
          if (mark == std::byte{2}) (void)pool.trim();
          if (mark == std::byte{3}) (void)pool.room_for(4 * kPage);
        }
      });
    }
  }
  pool.collect();
  EXPECT_EQ(pool.stats().requested_bytes, 0U);
  (void)pool.trim();
  EXPECT_EQ(memory.live_bytes(), 0U);
  EXPECT_EQ(pool.stats().pinned_bytes, 0U);
}

}  // namespace
}  // namespace ebb
