// Behaviours that broke other pools, each as a whole kind.

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "absl/synchronization/mutex.h"

#include "allocator/error.h"
#include "allocator/pinned_pool.h"
#include "tests/support/fakes.h"

namespace ebb {
namespace {

using test::FakeHostMemory;
using test::ManualSource;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kGranule = PinnedPool::kGranularityBytes;
constexpr std::size_t kMib = std::size_t{1} << 20;

// Work that uses blocks after they were given back. It ends in any order across streams,
// and in order on each.
class Streams {
 public:
  // A fence of one to three of them, after which nobody touches [data, data + bytes).
  Fence use(std::byte* data, std::size_t bytes, std::mt19937& random) {
    absl::MutexLock lock(&mutex_);
    auto work = std::make_shared<Work>(Work{data, bytes, 0});
    Fence fence;
    const std::size_t first = random() % streams_.size();
    const std::size_t count = 1 + random() % streams_.size();
    for (std::size_t i = 0; i < count; ++i) {
      Stream& stream = streams_[(first + i) % streams_.size()];
      stream.queue.push_back(work);
      ++work->left;
      fence.add(stream.source.at(++stream.submitted));
    }
    return fence;
  }

  // Ends the next work of a random stream. False if all is idle.
  bool end_one(std::mt19937& random) {
    absl::MutexLock lock(&mutex_);
    const std::size_t first = random() % streams_.size();
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      Stream& stream = streams_[(first + i) % streams_.size()];
      if (stream.queue.empty()) continue;
      const auto work = stream.queue.front();
      stream.queue.pop_front();
      // A race, or a torn block, if it was lent before.
      if (--work->left == 0) std::fill_n(work->data, work->bytes, kDevice);
      stream.source.reach(++stream.ended);
      return true;
    }
    return false;
  }

  static constexpr std::byte kDevice{0xDD};

 private:
  struct Work {
    std::byte* data;
    std::size_t bytes;
    int left;  // Streams that have not ended it.
  };
  struct Stream {
    ManualSource source;
    std::deque<std::shared_ptr<Work>> queue;
    std::uint64_t submitted = 0;
    std::uint64_t ended = 0;
  };

  absl::Mutex mutex_;
  std::array<Stream, 3> streams_;
};

// Case 2, and cases 5 and 7 as far as the pool goes.
TEST(PinnedPoolCases, NoBlockIsLentBeforeItsFenceWhateverTheOrder) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    FakeHostMemory memory;
    Streams streams;
    PinnedPool pool(memory, 256 * kPage);
    pool.reserve(64 * kPage);
    std::atomic<int> busy{3};
    {
      std::vector<std::jthread> threads;
      for (unsigned thread = 0; thread < 3; ++thread) {
        threads.emplace_back([&, thread] {
          std::mt19937 random(seed * 10 + thread);
          const std::byte mark{static_cast<unsigned char>(thread + 1)};
          for (int lent = 0; lent < 700;) {
            const std::size_t bytes = 1 + random() % (6 * kPage);
            auto block = pool.allocate(bytes);
            if (!block) {
              std::this_thread::yield();
              continue;
            }
            ++lent;
            std::fill_n(block.data(), bytes, mark);
            if (random() % 4 == 0) std::this_thread::yield();
            EXPECT_EQ(std::count(block.data(), block.data() + bytes, mark),
                      static_cast<std::ptrdiff_t>(bytes))
                << "seed " << seed;
            if (random() % 8 == 0) continue;  // Given back unused.
            block.release(streams.use(block.data(), bytes, random));
          }
          --busy;
        });
      }
      threads.emplace_back([&] {
        std::mt19937 random(seed);
        while (busy > 0 || streams.end_one(random)) {
          if (random() % 3 != 0 && !streams.end_one(random)) std::this_thread::yield();
          if (random() % 64 == 0) (void)pool.room_for(random() % (64 * kPage));
        }
      });
    }
    pool.collect();
    EXPECT_EQ(pool.stats().requested_bytes, 0U);
    EXPECT_EQ(pool.trim(), 64 * kPage);
  }
}

// Case 22: a pool that is keyed by stream grows with each new one.
TEST(PinnedPoolCases, NewStreamsEveryStepTakeNothing) {
  FakeHostMemory memory;
  PinnedPool pool(memory, 64 * kPage);
  pool.reserve(4 * kPage);
  for (int step = 0; step < 1'000; ++step) {
    std::array<ManualSource, 6> streams;  // Gone at the end of the step.
    for (int i = 0; i < 8; ++i) {
      auto block = pool.allocate(kPage / 2);
      ASSERT_TRUE(block);
      Fence fence;
      for (ManualSource& stream : streams) fence.add(stream.at(1));
      block.release(std::move(fence));
    }
    EXPECT_FALSE(pool.allocate(1));
    for (ManualSource& stream : streams) stream.reach(1);
    pool.collect();
  }
  EXPECT_EQ(pool.stats().pinned_bytes, 4 * kPage);
  EXPECT_EQ(pool.stats().pin_calls, 1U);
}

// Case 25.
TEST(PinnedPoolCases, AByteAboveAPowerOfTwoCostsAGranule) {
  const auto memory = make_unbacked_memory();
  for (std::size_t bytes = kGranule; bytes <= std::size_t{1} << 36; bytes *= 2) {
    PinnedPool pool(*memory, std::size_t{1} << 40);
    const std::size_t wanted = std::min(bytes + 1, std::size_t{1} << 36);
    pool.reserve(wanted);
    const auto block = pool.allocate(wanted);
    ASSERT_TRUE(block) << bytes;
    EXPECT_LE(pool.stats().lent_bytes, wanted + kGranule);
    EXPECT_LE(pool.stats().pinned_bytes, wanted + kPage);
  }
}

// Case 26.
TEST(PinnedPoolCases, ACachedBlockIsNotLentForALargerRequest) {
  const auto memory = make_unbacked_memory();
  PinnedPool pool(*memory, 1000 * kMib);
  pool.reserve(150 * kMib);
  std::byte* cached = pool.allocate(150 * kMib).data();
  EXPECT_FALSE(pool.allocate(200 * kMib));
  EXPECT_FALSE(pool.allocate(150 * kMib + 1));
  pool.reserve(350 * kMib);
  const auto larger = pool.allocate(200 * kMib);
  ASSERT_TRUE(larger);
  EXPECT_TRUE(larger.data() >= cached + 150 * kMib || larger.data() + 200 * kMib <= cached);
  EXPECT_EQ(pool.allocate(150 * kMib).data(), cached);
}

// Counts the calls, without memory behind them. Pins at the same address again.
class CountingMemory final : public HostMemory {
 public:
  std::byte* pin(std::size_t bytes) override {
    ++pins;
    if (spare_ != nullptr && spare_bytes_ == bytes) return std::exchange(spare_, nullptr);
    return memory_->pin(bytes);
  }
  void unpin(std::byte* data, std::size_t bytes) noexcept override {
    if (spare_ == nullptr) {
      spare_ = data;
      spare_bytes_ = bytes;
    } else {
      memory_->unpin(data, bytes);
    }
  }
  ~CountingMemory() override {
    if (spare_ != nullptr) memory_->unpin(spare_, spare_bytes_);
  }

  int pins = 0;

 private:
  const std::unique_ptr<HostMemory> memory_ = make_unbacked_memory();
  std::byte* spare_ = nullptr;
  std::size_t spare_bytes_ = 0;
};

// Cases 27 and 33.
TEST(PinnedPoolCases, ManySmallBlocksTakeOneMappingAndNoPin) {
  CountingMemory memory;
  PinnedPool pool(memory, 100 * kMib);
  pool.reserve(100 * kMib);
  std::vector<PinnedPool::Block> blocks;
  for (std::size_t i = 0; i < 100'000; ++i) {
    blocks.push_back(pool.allocate(1 + i % 1'000));
    ASSERT_TRUE(blocks.back());
  }
  for (std::size_t i = 0; i < blocks.size(); i += 2) blocks[i].release({});
  EXPECT_FALSE(pool.allocate(101 * kMib)) << "it does not pin for that either";
  EXPECT_EQ(memory.pins, 1);
  EXPECT_EQ(pool.stats().pin_calls, 1U);
  EXPECT_EQ(pool.stats().slabs, 1U);
}

// Case 28: what fits is found, though no length ever comes back.
TEST(PinnedPoolCases, LengthsThatNeverRepeatReuseTheSameMemory) {
  CountingMemory memory;
  PinnedPool pool(memory, 1000 * kMib);
  pool.reserve(101 * kMib);
  std::mt19937 random(1);
  for (int step = 0; step < 500; ++step) {
    std::vector<PinnedPool::Block> blocks;
    for (std::size_t left = 100 * kMib; left > kMib;) {
      const std::size_t bytes = std::min<std::size_t>(left, 1 + random() % (20 * kMib));
      blocks.push_back(pool.allocate(bytes));
      ASSERT_TRUE(blocks.back()) << "step " << step;
      left -= bytes;
    }
    std::shuffle(blocks.begin(), blocks.end(), random);
  }
  EXPECT_EQ(memory.pins, 1);
}

// Case 29.
TEST(PinnedPoolCases, AllOfItCanBeGivenBackHoweverItWasUsed) {
  FakeHostMemory memory;
  ManualSource copy;
  PinnedPool pool(memory, 64 * kMib);
  std::mt19937 random(1);
  for (std::uint64_t round = 0; round < 20; ++round) {
    std::vector<PinnedPool::Block> blocks;
    for (std::size_t pages = 16; pages <= 64; pages += 16) {
      pool.reserve(pages * kPage);
      for (int i = 0; i < 20; ++i) blocks.push_back(pool.allocate(random() % (4 * kPage)));
    }
    std::shuffle(blocks.begin(), blocks.end(), random);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const std::uint64_t ticket = 100 * round + random() % 100;
      blocks[i].release(i % 3 == 0 ? Fence() : Fence(copy.at(ticket)));
    }
    copy.reach(100 * round + 99);
    EXPECT_EQ(pool.trim(), 64 * kPage);
    EXPECT_EQ(memory.live_bytes(), 0U);
    EXPECT_EQ(pool.stats().slabs, 0U);
    EXPECT_FALSE(pool.allocate(1));
  }
}

// Case 11, as far as the pool goes: nothing is remembered by address.
TEST(PinnedPoolCases, ASlabAtAnAddressThatWasThereBeforeIsANewOne) {
  CountingMemory memory;
  PinnedPool pool(memory, kMib);
  pool.reserve(kMib);
  auto old = pool.allocate(3 * kPage, Purpose::kOptimizer);
  std::byte* address = old.data();
  old.release({});
  EXPECT_EQ(pool.trim(), kMib);
  pool.reserve(kMib);
  const auto fresh = pool.allocate(kPage);
  EXPECT_EQ(fresh.data(), address);
  old.release({});  // Of a loan that is over.
  EXPECT_EQ(pool.stats().lent_bytes, kPage);
  EXPECT_EQ(pool.stats().requested_by_purpose[Purpose::kOptimizer], 0U);
  EXPECT_TRUE(pool.allocate(kMib - kPage)) << "one whole rest";
}

}  // namespace
}  // namespace ebb
