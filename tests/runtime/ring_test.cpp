#include "runtime/device/ring.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <random>

#include <gtest/gtest.h>

namespace ebb::device {
namespace {

TEST(RingTest, IsEmptyUntilSomethingIsPushed) {
  Ring<int> ring;
  EXPECT_TRUE(ring.empty());
  EXPECT_EQ(ring.size(), 0U);
  EXPECT_EQ(ring.push_back(7), 7);
  EXPECT_FALSE(ring.empty());
  EXPECT_EQ(ring.front(), 7);
  EXPECT_EQ(ring.back(), 7);
  ring.pop_front();
  EXPECT_TRUE(ring.empty());
}

TEST(RingTest, GivesBackTheSlotThatWasPushed) {
  Ring<int> ring;
  ring.push_back(1);
  ring.push_back(2) = 3;
  EXPECT_EQ(ring[1], 3);
  ring.front() = 4;
  EXPECT_EQ(ring[0], 4);
}

// Grows while its first element lies anywhere, and wraps many times.
TEST(RingTest, DoesWhatADequeDoes) {
  std::mt19937 random(1);
  Ring<int> ring;
  std::deque<int> model;
  std::size_t most = 0;
  for (int i = 0; i < 20000; ++i) {
    // Now more pushes than pops, now fewer.
    const bool push = random() % 8 < (i / 1000 % 2 == 0 ? 5U : 3U);
    if (push || model.empty()) {
      ring.push_back(i);
      model.push_back(i);
    } else {
      ring.pop_front();
      model.pop_front();
    }
    most = std::max(most, model.size());
    ASSERT_EQ(ring.size(), model.size());
    if (model.empty()) continue;
    const auto& constant = ring;
    ASSERT_EQ(constant.front(), model.front());
    ASSERT_EQ(constant.back(), model.back());
    const std::size_t any = random() % model.size();
    ASSERT_EQ(constant[any], model[any]);
  }
  EXPECT_GT(most, 64U);  // It grew more than once.
}

TEST(RingTest, GrowsWithItsFirstElementAtAnyPlace) {
  for (int head = 0; head < 16; ++head) {
    Ring<int> ring;
    for (int i = 0; i < head; ++i) {
      ring.push_back(-1);
      ring.pop_front();
    }
    for (int i = 0; i < 40; ++i) ring.push_back(i);
    for (std::size_t i = 0; i < 40; ++i) ASSERT_EQ(ring[i], static_cast<int>(i)) << head;
  }
}

TEST(RingTest, LetsGoOfWhatIsPopped) {
  Ring<std::shared_ptr<int>> ring;
  const auto first = std::make_shared<int>(1);
  const auto second = std::make_shared<int>(2);
  ring.push_back(first);
  ring.push_back(second);
  ring.pop_front();
  EXPECT_EQ(first.use_count(), 1);
  EXPECT_EQ(second.use_count(), 2);
}

TEST(RingTest, HoldsWhatCanOnlyBeMoved) {
  Ring<std::unique_ptr<int>> ring;
  for (int i = 0; i < 40; ++i) ring.push_back(std::make_unique<int>(i));
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(*ring.front(), i);
    ring.pop_front();
  }
}

}  // namespace
}  // namespace ebb::device
