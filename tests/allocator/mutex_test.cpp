#include "allocator/mutex.h"

#include <array>
#include <barrier>
#include <thread>

#include <gtest/gtest.h>

namespace ebb {
namespace {

struct Counter {
  Mutex mutex;
  int value ABSL_GUARDED_BY(mutex) = 0;
};

TEST(Mutex, LetsOneThreadInAtATime) {
  constexpr int kRounds = 20'000;
  Counter counter;
  {
    std::barrier together(4);
    std::array<std::jthread, 4> threads;
    for (std::jthread& thread : threads) {
      thread = std::jthread([&] {
        together.arrive_and_wait();
        for (int i = 0; i < kRounds; ++i) {
          const MutexLock lock(counter.mutex);
          ++counter.value;
        }
      });
    }
  }
  const MutexLock lock(counter.mutex);
  EXPECT_EQ(counter.value, 4 * kRounds);
}

TEST(Mutex, WakesEveryThreadThatSleepsForIt) {
  Counter counter;
  std::array<std::jthread, 3> threads;
  {
    const MutexLock lock(counter.mutex);
    for (std::jthread& thread : threads) {
      thread = std::jthread([&] {
        const MutexLock inner(counter.mutex);
        ++counter.value;
      });
    }
    // Long enough for them to fall asleep; where they have not, it holds all the same.
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    EXPECT_EQ(counter.value, 0);
  }
  for (std::jthread& thread : threads) thread.join();  // Hangs if one is forgotten.
  const MutexLock lock(counter.mutex);
  EXPECT_EQ(counter.value, 3);
}

}  // namespace
}  // namespace ebb
