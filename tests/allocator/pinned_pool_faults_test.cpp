// What the pool does when pinning fails, and in a child of fork().

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "allocator/error.h"
#include "allocator/pinned_pool.h"
#include "tests/support/errors.h"
#include "tests/support/fakes.h"

namespace ebb {
namespace {

using test::FakeHostMemory;
using test::ManualSource;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kGib = std::size_t{1} << 30;

// Addresses only. Fails the one pin() that it is told to, as registering a piece does.
class FailingMemory final : public HostMemory {
 public:
  explicit FailingMemory(std::size_t good_calls) : good_calls_(good_calls) {}

  std::byte* pin(std::size_t bytes) override {
    EXPECT_LE(bytes, 64 * kGib) << "more than one call can register";
    EBB_CHECK(calls_++ != good_calls_, kInternal, "the driver refuses");
    std::byte* data = memory_->pin(bytes);
    live.emplace_back(data, bytes);
    return data;
  }
  void unpin(std::byte* data, std::size_t bytes) noexcept override {
    EXPECT_EQ(std::erase(live, std::pair(data, bytes)), 1U);
    memory_->unpin(data, bytes);
  }

  std::size_t live_bytes() const {
    std::size_t sum = 0;
    for (const auto& [data, bytes] : live) sum += bytes;
    return sum;
  }

  std::vector<std::pair<std::byte*, std::size_t>> live;

 private:
  const std::unique_ptr<HostMemory> memory_ = make_unbacked_memory();
  const std::size_t good_calls_;
  std::size_t calls_ = 0;
};

// Calls `reserve` until it succeeds, and counts the failures. Each must leave the pool as
// it was.
std::size_t failures_of(PinnedPool& pool, const FailingMemory& memory, std::size_t bytes) {
  for (std::size_t failures = 0;; ++failures) {
    const PinnedPool::Stats before = pool.stats();
    const std::size_t live = memory.live_bytes();
    try {
      pool.reserve(bytes);
      return failures;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), absl::StatusCode::kInternal);
    }
    const PinnedPool::Stats after = pool.stats();
    EXPECT_EQ(after.pinned_bytes, before.pinned_bytes);
    EXPECT_EQ(after.slabs, before.slabs);
    EXPECT_EQ(after.pin_calls, before.pin_calls);
    EXPECT_EQ(memory.live_bytes(), live);
  }
}

// Case 30: 512 GiB are 8 pieces, any of which the driver may refuse.
TEST(PinnedPoolFaults, LeaveThePoolAsItWasWhicheverPinFails) {
  ManualSource copy;
  for (std::size_t good = 0; good < 14; ++good) {
    FailingMemory memory(good);
    std::size_t failures = 0;
    {
      PinnedPool pool(memory, 1024 * kGib);
      failures += failures_of(pool, memory, kGib);
      auto first = pool.allocate(kGib);
      ASSERT_TRUE(first);
      failures += failures_of(pool, memory, 513 * kGib);
      EXPECT_EQ(pool.stats().pinned_bytes, 513 * kGib);
      std::vector<PinnedPool::Block> blocks;
      while (blocks.emplace_back(pool.allocate(64 * kGib))) {
      }
      EXPECT_EQ(blocks.size(), 8U + 1);
      blocks.clear();
      EXPECT_EQ(pool.trim(), 512 * kGib);
      failures += failures_of(pool, memory, 200 * kGib);
      EXPECT_EQ(memory.live_bytes(), 200 * kGib);
      first.release(Fence(copy.at(1)));
      copy.reach(1);
      EXPECT_EQ(pool.trim(), 200 * kGib);
      EXPECT_EQ(memory.live_bytes(), 0U);
    }
    EXPECT_EQ(failures, good < 13 ? 1U : 0U) << "1 + 8 + 4 calls of pin";
    EXPECT_TRUE(memory.live.empty());
  }
}

TEST(PinnedPoolFaults, LetOtherThreadsReserveAfterOneFailed) {
  FailingMemory memory(0);
  PinnedPool pool(memory, 4 * kPage);
  EXPECT_THROW(pool.reserve(kPage), Error);
  std::jthread([&] {
    pool.reserve(2 * kPage);
  }).join();  // Hangs, if the right is not given back.
  EXPECT_TRUE(pool.allocate(2 * kPage));
}

TEST(PinnedPoolFaults, SayThatItIsHostMemoryThatRanOut) {
  FakeHostMemory memory;
  PinnedPool pool(memory, kPage);
  try {
    pool.reserve(2 * kPage);
    ADD_FAILURE() << "reserved more than its cap";
  } catch (const Error& error) {
    EXPECT_EQ(error.resource(), Error::Resource::kHostMemory);
  }
}

// Runs `work` in a child, and returns its exit status; 100 if it threw, 101 if it hung.
int in_child(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    try {
      _exit(work());
    } catch (...) {
      _exit(100);
    }
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 101;
}

// Counts what a child does to its parent's memory.
class Watched final : public HostMemory {
 public:
  std::byte* pin(std::size_t bytes) override {
    ++pins;
    return memory_->pin(bytes);
  }
  void unpin(std::byte* data, std::size_t bytes) noexcept override {
    ++unpins;
    memory_->unpin(data, bytes);
  }

  int pins = 0;
  int unpins = 0;

 private:
  const std::unique_ptr<HostMemory> memory_ = make_pageable_memory();
};

bool refuses_a_child(const std::function<void()>& call) {
  try {
    call();
    return false;
  } catch (const Error& error) {
    return error.code() == absl::StatusCode::kFailedPrecondition &&
           std::string(error.what()).find("fork()") != std::string::npos;
  }
}

TEST(PinnedPoolFork, RefusesAChildAndSaysWhy) {
  FakeHostMemory memory;
  PinnedPool pool(memory, 4 * kPage);
  pool.reserve(4 * kPage);
  EXPECT_EQ(in_child([&] {
              return (refuses_a_child([&] { (void)pool.allocate(1); }) ? 0 : 1) +
                     (refuses_a_child([&] { pool.reserve(1); }) ? 0 : 2) +
                     (refuses_a_child([&] { (void)pool.room_for(1); }) ? 0 : 4) +
                     (refuses_a_child([&] { (void)pool.stats(); }) ? 0 : 8);
            }),
            0);
  EXPECT_TRUE(pool.allocate(4 * kPage)) << "the parent goes on";
}

TEST(PinnedPoolFork, DestroysItselfInAChildWithoutTouchingWhatIsTheParents) {
  Watched memory;
  ManualSource copy;
  auto pool = std::make_unique<PinnedPool>(memory, 8 * kPage);
  pool->reserve(4 * kPage);
  auto block = std::make_unique<PinnedPool::Block>(pool->allocate(kPage));
  auto other = std::make_unique<PinnedPool::Block>(pool->allocate(kPage));
  std::fill_n(block->data(), kPage, std::byte{0xEB});
  pool->allocate(kPage).release(Fence(copy.at(1)));  // Which no child ever sees the end of.
  EXPECT_EQ(in_child([&] {
              other->release(Fence(copy.at(2)));
              block.reset();
              pool->collect();
              const bool trimmed = pool->trim() != 0;
              pool.reset();  // Hangs, if it waits.
              return memory.unpins + 10 * memory.pins - 10 + (trimmed ? 50 : 0);
            }),
            0);
  EXPECT_EQ(pool->stats().lent_bytes, 2 * kPage);
  EXPECT_EQ(pool->stats().retired_bytes, kPage);
  EXPECT_EQ(std::count(block->data(), block->data() + kPage, std::byte{0xEB}),
            static_cast<std::ptrdiff_t>(kPage));
  copy.reach(1);
  block.reset();
  other.reset();
  pool.reset();
  EXPECT_EQ(memory.unpins, 1);
}

TEST(PinnedPoolFork, GivesAChildNoneOfTheMemory) {
  Watched memory;
  PinnedPool pool(memory, kPage);
  pool.reserve(kPage);
  const auto block = pool.allocate(kPage);
  std::fill_n(block.data(), kPage, std::byte{1});
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  // The kernel says so instead of a signal, if it is to read what is not there.
  EXPECT_EQ(in_child([&] { return write(ends[1], block.data(), 1) == -1 ? 0 : 1; }), 0);
  EXPECT_EQ(write(ends[1], block.data(), 1), 1);
  close(ends[0]);
  close(ends[1]);
}

TEST(PinnedPoolFork, LetsAChildMakeAPoolOfItsOwn) {
  FakeHostMemory memory;
  PinnedPool pool(memory, kPage);
  pool.reserve(kPage);
  EXPECT_EQ(in_child([] {
              const auto own = make_pageable_memory();
              PinnedPool child(*own, kPage);
              child.reserve(kPage);
              auto block = child.allocate(kPage);
              if (!block) return 1;
              block.data()[0] = std::byte{1};
              return 0;
            }),
            0);
}

// The lock may be held by a thread that the child does not have.
TEST(PinnedPoolFork, DoesNotHangAChildThatWasMadeWhileAnotherThreadAllocates) {
  FakeHostMemory memory;
  PinnedPool pool(memory, 64 * kPage);
  pool.reserve(64 * kPage);
  std::atomic<bool> stop{false};
  std::jthread busy([&] {
    while (!stop) (void)pool.allocate(kPage);
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(in_child([&] {
                const bool refused = refuses_a_child([&] { (void)pool.allocate(1); });
                (void)pool.trim();
                pool.collect();
                return refused ? 0 : 1;
              }),
              0);
  }
  stop = true;
}

}  // namespace
}  // namespace ebb
