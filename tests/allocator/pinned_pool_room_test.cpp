// What to wait for so that a full pool has room; pinned_pool_test.cpp is about lending.

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "allocator/pinned_pool.h"
#include "tests/support/fakes.h"

namespace ebb {
namespace {

using test::FakeHostMemory;
using test::ManualSource;

constexpr std::size_t kPage = 4096;

class PinnedPoolRoomTest : public ::testing::Test {
 protected:
  void TearDown() override {
    copy_.reach(~std::uint64_t{0});
    other_.reach(~std::uint64_t{0});
  }

  // Fills the pool with blocks of these many pages, side by side.
  std::vector<PinnedPool::Block> fill(std::initializer_list<std::size_t> pages) {
    std::size_t sum = 0;
    for (const std::size_t count : pages) sum += count;
    pool_.reserve(sum * kPage);
    std::vector<PinnedPool::Block> blocks;
    for (const std::size_t count : pages) blocks.push_back(pool_.allocate(count * kPage));
    EXPECT_FALSE(pool_.allocate(1));
    return blocks;
  }

  // The tickets of copy_ that room_for() says to wait for.
  std::vector<std::uint64_t> waits(std::size_t pages) {
    const std::optional<Fence> fence = pool_.room_for(pages * kPage);
    if (!fence) return {};
    std::vector<std::uint64_t> tickets;
    fence->for_each([&](const Event& event) { tickets.push_back(event.ticket()); });
    std::sort(tickets.begin(), tickets.end());
    return tickets;
  }

  using Tickets = std::vector<std::uint64_t>;

  FakeHostMemory memory_;
  ManualSource copy_;
  ManualSource other_;
  PinnedPool pool_{memory_, 64 * kPage};
};

TEST_F(PinnedPoolRoomTest, SaysThatWaitingHelpsNobodyWhereAllIsLent) {
  EXPECT_FALSE(pool_.room_for(1)) << "nothing is pinned";
  const auto blocks = fill({2, 2});
  EXPECT_FALSE(pool_.room_for(1));
  EXPECT_FALSE(pool_.room_for(std::size_t{1} << 60));
}

TEST_F(PinnedPoolRoomTest, AsksForNoWaitWhereThereIsRoomNow) {
  auto blocks = fill({2, 2});
  blocks[0].release(Fence(copy_.at(1)));
  copy_.reach(1);
  const auto fence = pool_.room_for(2 * kPage);
  ASSERT_TRUE(fence);
  EXPECT_TRUE(fence->empty());
  EXPECT_TRUE(pool_.allocate(2 * kPage));
}

TEST_F(PinnedPoolRoomTest, NamesTheBlockThatIsLargeEnoughInsteadOfTheOldest) {
  auto blocks = fill({1, 1, 4, 1, 5});
  blocks[0].release(Fence(copy_.at(1)));
  blocks[2].release(Fence(copy_.at(7)));
  blocks[4].release(Fence(copy_.at(9)));
  EXPECT_EQ(waits(1), (Tickets{1}));
  EXPECT_EQ(waits(2), (Tickets{7})) << "given back before the last, which would do too";
  EXPECT_EQ(waits(5), (Tickets{9}));
  EXPECT_FALSE(pool_.room_for(5 * kPage + 1));
}

TEST_F(PinnedPoolRoomTest, JoinsNeighboursThatAreFreeOrWaitForDifferentFences) {
  auto blocks = fill({1, 2, 1, 2, 1, 6});
  blocks[0].release({});
  blocks[1].release(Fence(copy_.at(3)));
  blocks[2].release(Fence(other_.at(8)));
  blocks[4].release(Fence(copy_.at(5)));
  EXPECT_EQ(waits(3), (Tickets{3}));
  EXPECT_EQ(waits(4), (Tickets{3, 8}));
  EXPECT_FALSE(pool_.room_for(5 * kPage)) << "a lent block is in between";
  blocks[3].release(Fence(copy_.at(4)));
  EXPECT_EQ(waits(5), (Tickets{4, 8}));
  EXPECT_EQ(waits(7), (Tickets{5, 8}));
}

TEST_F(PinnedPoolRoomTest, DoesNotJoinTwoSlabs) {
  auto blocks = fill({2});
  pool_.reserve(4 * kPage);
  blocks.push_back(pool_.allocate(2 * kPage));
  for (auto& block : blocks) block.release(Fence(copy_.at(1)));
  EXPECT_FALSE(pool_.room_for(3 * kPage));
}

// Against all windows of a model: there is a room if and only if some window is large
// enough, no other has waited for an earlier last one, and its fence is enough.
TEST_F(PinnedPoolRoomTest, FindsTheEarliestRoomInAnyState) {
  constexpr std::size_t kBlocks = 24;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    ManualSource source;
    PinnedPool pool(memory_, 1024 * kPage);
    std::vector<std::size_t> pages(kBlocks);
    for (std::size_t& count : pages) count = 1 + random() % 5;
    std::size_t sum = 0;
    for (const std::size_t count : pages) sum += count;
    pool.reserve(sum * kPage);
    std::vector<PinnedPool::Block> blocks;
    for (const std::size_t count : pages) blocks.push_back(pool.allocate(count * kPage));
    std::vector<std::size_t> order(kBlocks);
    for (std::size_t i = 0; i < kBlocks; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    order.resize(1 + random() % kBlocks);
    constexpr std::uint64_t kLent = ~std::uint64_t{0};
    std::vector<std::uint64_t> ticket(kBlocks, kLent);
    std::uint64_t next = 0;
    for (const std::size_t i : order) {
      ticket[i] = random() % 3 == 0 ? 0 : ++next;  // 0: done already.
      blocks[i].release(ticket[i] == 0 ? Fence() : Fence(source.at(ticket[i])));
    }

    for (std::size_t want = 1; want <= sum; want += 1 + random() % 4) {
      std::uint64_t best = kLent;
      for (std::size_t first = 0; first < kBlocks; ++first) {
        std::uint64_t latest = 0;
        std::size_t size = 0;
        for (std::size_t i = first; i < kBlocks && ticket[i] != kLent; ++i) {
          latest = std::max(latest, ticket[i]);
          size += pages[i];
          if (size >= want) best = std::min(best, latest);
        }
      }
      const auto fence = pool.room_for(want * kPage);
      ASSERT_EQ(fence.has_value(), best != kLent) << "seed " << seed;
      if (!fence) continue;
      std::uint64_t asked = 0;
      fence->for_each([&](const Event& event) { asked = event.ticket(); });
      ASSERT_EQ(asked, best) << "seed " << seed;
    }
    const std::size_t want = 1 + random() % 12;
    if (const auto fence = pool.room_for(want * kPage)) {
      fence->for_each([&](const Event& event) { source.reach(event.ticket()); });
      EXPECT_TRUE(pool.allocate(want * kPage)) << "seed " << seed;
    }
    source.reach(next);
  }
}

}  // namespace
}  // namespace ebb
