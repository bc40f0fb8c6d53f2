// How the pool gets its memory and gives it up; pinned_pool_test.cpp is about lending it.

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "allocator/pinned_pool.h"
#include "tests/support/errors.h"
#include "tests/support/fakes.h"

namespace ebb {
namespace {

using test::fails_with;
using test::FakeHostMemory;
using test::ManualSource;

constexpr std::size_t kPage = 4096;

auto is_full(const char* why) {
  return fails_with(absl::StatusCode::kResourceExhausted, why);
}

class PinnedPoolReserveTest : public ::testing::Test {
 protected:
  FakeHostMemory memory_;
  ManualSource copy_;
  PinnedPool pool_{memory_, 16 * kPage};
};

TEST_F(PinnedPoolReserveTest, PinsNothingUntilItIsToldTo) {
  EXPECT_FALSE(pool_.allocate(1));
  EXPECT_EQ(memory_.live_bytes(), 0U);
  EXPECT_EQ(pool_.stats().pin_calls, 0U);
  EXPECT_EQ(pool_.stats().limit_bytes, 16 * kPage);
}

TEST_F(PinnedPoolReserveTest, PinsWhatIsReservedToThePage) {
  pool_.reserve(2 * kPage + 1);
  EXPECT_EQ(memory_.live_bytes(), 3 * kPage);
  pool_.reserve(3 * kPage);
  EXPECT_EQ(pool_.stats().pin_calls, 1U);
  pool_.reserve(5 * kPage);
  const PinnedPool::Stats stats = pool_.stats();
  EXPECT_EQ(stats.pinned_bytes, 5 * kPage);
  EXPECT_EQ(stats.pin_calls, 2U);
  EXPECT_EQ(stats.slabs, 2U);
}

TEST_F(PinnedPoolReserveTest, RefusesToPinMoreThanItsCap) {
  pool_.reserve(4 * kPage);
  EXPECT_THAT([&] { pool_.reserve(16 * kPage + 1); }, is_full("the cap is 65536 bytes"));
  EXPECT_THAT([&] { pool_.reserve(std::numeric_limits<std::size_t>::max()); },
              is_full("the cap is 65536 bytes"));
  EXPECT_EQ(memory_.live_bytes(), 4 * kPage);
  pool_.reserve(16 * kPage);
  EXPECT_EQ(memory_.live_bytes(), 16 * kPage);
}

TEST_F(PinnedPoolReserveTest, UnpinsSlabsWithoutABlock) {
  pool_.reserve(2 * kPage);
  auto block = pool_.allocate(2 * kPage);
  pool_.reserve(3 * kPage);
  pool_.reserve(6 * kPage);
  EXPECT_EQ(pool_.trim(), 4 * kPage);
  EXPECT_EQ(memory_.live_bytes(), 2 * kPage);
  EXPECT_EQ(pool_.stats().pinned_bytes, 2 * kPage);
  EXPECT_EQ(pool_.stats().slabs, 1U);
  EXPECT_FALSE(pool_.allocate(1));

  block.release(Fence(copy_.at(1)));
  EXPECT_EQ(pool_.trim(), 0U);
  copy_.reach(1);
  EXPECT_EQ(pool_.trim(), 2 * kPage);
  EXPECT_EQ(memory_.live_bytes(), 0U);
  pool_.reserve(16 * kPage);
  EXPECT_TRUE(pool_.allocate(16 * kPage));
}

TEST(PinnedPoolReserve, IsUnchangedWhenMemoryRunsOut) {
  FakeHostMemory memory(2 * kPage);
  PinnedPool pool(memory, 4 * kPage);
  pool.reserve(kPage);
  EXPECT_THAT([&] { pool.reserve(4 * kPage); }, is_full("the fake is full"));
  EXPECT_EQ(pool.stats().pinned_bytes, kPage);
  EXPECT_EQ(pool.stats().pin_calls, 1U);
  pool.reserve(2 * kPage);  // The claim is taken back: this does not wait for ever.
  EXPECT_TRUE(pool.allocate(kPage));
}

TEST(PinnedPoolReserve, GoesOnAfterAnyPinThatFails) {
  for (int good = 0; good < 4; ++good) {
    FakeHostMemory memory;
    PinnedPool pool(memory, 16 * kPage);
    memory.fail_after(good);
    for (std::size_t pages = 1; pages <= 5; ++pages) {
      if (pages == static_cast<std::size_t>(good) + 1) {
        EXPECT_THROW(pool.reserve(pages * kPage), Error);
        EXPECT_EQ(pool.stats().pinned_bytes, (pages - 1) * kPage);
      } else {
        pool.reserve(pages * kPage);
      }
    }
    EXPECT_EQ(memory.live_bytes(), 5 * kPage);
  }
}

// Counts what is pinned, without memory behind it.
class CountingMemory final : public HostMemory {
 public:
  explicit CountingMemory(std::size_t good_calls) : good_calls_(good_calls) {}

  std::byte* pin(std::size_t bytes) override {
    EBB_CHECK(pieces.size() < good_calls_, kResourceExhausted, "no more");
    std::byte* data = memory_->pin(bytes);
    pieces.emplace_back(data, bytes);
    return data;
  }
  void unpin(std::byte* data, std::size_t bytes) noexcept override {
    EXPECT_EQ(std::erase(pieces, std::pair(data, bytes)), 1U);
    memory_->unpin(data, bytes);
  }

  std::vector<std::pair<std::byte*, std::size_t>> pieces;

 private:
  const std::unique_ptr<HostMemory> memory_ = make_unbacked_memory();
  const std::size_t good_calls_;
};

constexpr std::size_t kGib = std::size_t{1} << 30;

TEST(PinnedPoolReserve, PinsInPiecesAndPutsNoBlockAcrossTwo) {
  CountingMemory memory(10);
  {
    PinnedPool pool(memory, 200 * kGib);
    pool.reserve(150 * kGib);
    ASSERT_EQ(memory.pieces.size(), 3U);
    EXPECT_EQ(memory.pieces[0].second, 64 * kGib);
    EXPECT_EQ(memory.pieces[1].second, 64 * kGib);
    EXPECT_EQ(memory.pieces[2].second, 22 * kGib);
    EXPECT_EQ(pool.stats().slabs, 3U);
    EXPECT_FALSE(pool.allocate(65 * kGib));
    std::vector<PinnedPool::Block> blocks;
    while (blocks.emplace_back(pool.allocate(10 * kGib))) {
      const std::byte* data = blocks.back().data();
      EXPECT_EQ(std::count_if(memory.pieces.begin(), memory.pieces.end(),
                              [&](const auto& piece) {
                                return piece.first <= data &&
                                       data + 10 * kGib <= piece.first + piece.second;
                              }),
                1);
    }
    EXPECT_EQ(blocks.size(), 6U + 6 + 2 + 1);
  }
  EXPECT_TRUE(memory.pieces.empty());
}

TEST(PinnedPoolReserve, UnpinsThePiecesBeforeOneThatFails) {
  CountingMemory memory(2);
  PinnedPool pool(memory, 200 * kGib);
  EXPECT_THROW(pool.reserve(150 * kGib), Error);
  EXPECT_TRUE(memory.pieces.empty());
  EXPECT_EQ(pool.stats().pinned_bytes, 0U);
}

TEST(PinnedPoolReserve, RefusesWhatTheControlGroupForbidsBeforePinningAnything) {
  const auto root = std::filesystem::path(::testing::TempDir()) / "pinned_pool";
  std::filesystem::create_directories(root / "proc/self");
  std::filesystem::create_directories(root / "sys/fs/cgroup/job");
  std::ofstream(root / "proc/self/cgroup") << "0::/job\n";
  std::ofstream(root / "sys/fs/cgroup/job/memory.max") << 100 * kGib << "\n";
  const auto memory = make_pageable_memory(0, root);
  PinnedPool pool(*memory, 500 * kGib);
  EXPECT_THAT([&] { pool.reserve(101 * kGib); }, is_full("job/memory.max allows"));
  EXPECT_EQ(pool.stats().pin_calls, 0U);
  pool.reserve(kPage);
  EXPECT_TRUE(pool.allocate(kPage));
  std::filesystem::remove_all(root);
}

// A pin that does not return until the test lets it.
class SlowMemory final : public HostMemory {
 public:
  std::byte* pin(std::size_t bytes) override {
    const std::uint64_t call = ++calls_;
    started.reach(call);
    go_on.await(call);
    return memory_.pin(bytes);
  }
  void unpin(std::byte* data, std::size_t bytes) noexcept override {
    memory_.unpin(data, bytes);
  }

  ManualSource started;
  ManualSource go_on;

 private:
  FakeHostMemory memory_;
  std::atomic<std::uint64_t> calls_{0};
};

TEST(PinnedPoolReserve, LendsWhileAnotherThreadPins) {
  SlowMemory memory;
  PinnedPool pool(memory, 8 * kPage);
  memory.go_on.reach(1);
  pool.reserve(kPage);
  std::jthread grower([&] { pool.reserve(4 * kPage); });
  memory.started.await(2);
  {
    auto block = pool.allocate(kPage);  // Hangs, if it is pinned under the lock.
    EXPECT_TRUE(block);
    EXPECT_EQ(pool.stats().pinned_bytes, kPage);
  }
  // A second call waits for the first instead of pinning the same bytes again.
  std::jthread other([&] { pool.reserve(4 * kPage); });
  memory.go_on.reach(100);  // It would be let through, too.
  grower.join();
  other.join();
  EXPECT_EQ(pool.stats().pinned_bytes, 4 * kPage);
  EXPECT_EQ(pool.stats().pin_calls, 2U);
}

}  // namespace
}  // namespace ebb
