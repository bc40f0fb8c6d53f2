#include "offload/engine/lesson.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "gtest/gtest.h"

#include "runtime/device/sim/sim_device.h"
#include "tests/support/devices.h"
#include "tests/support/wanted_blocks.h"

namespace ebb::offload {
namespace {

using Sizes = std::vector<std::size_t>;
using Places = std::vector<std::optional<std::size_t>>;

TEST(AlignTest, FindsEachPositionInAnOrderWithOthersLeftOutPutInOrExchanged) {
  const Sizes seen{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(align(seen, seen), (Places{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(align({1, 2, 6, 7, 8}, seen), (Places{0, 1, 5, 6, 7}));
  EXPECT_EQ(align({3, 4, 5}, seen), (Places{2, 3, 4}));
  EXPECT_EQ(align({1, 2, 9, 3, 4}, seen), (Places{0, 1, {}, 2, 3}));
  EXPECT_EQ(align({1, 2, 9, 4, 5}, seen), (Places{0, 1, {}, 3, 4}));
  EXPECT_EQ(align({1, 3, 2, 4, 5}, seen).back(), 4U);
  EXPECT_EQ(align({}, seen), Places{});
  EXPECT_EQ(align({1, 2}, {}), (Places{{}, {}}));
}

class LearnedTest : public testing::Test {
 protected:
  Block& block(std::size_t bytes) { return blocks_.add(bytes); }
  // Ops of `seconds` each; their ends.
  Event work(double seconds) {
    return device_->current_stream().launch(test::op("work", seconds), [](void*) {});
  }
  // A backward whose uses came a second after each other, in order.
  void learn(const Sizes& sizes) {
    std::vector<Block*> order;
    for (const std::size_t size : sizes) order.push_back(&block(size));
    Walk walk(++walks_, order, work(1));
    for (Block* each : order) {
      walk.ask(*each);
      walk.note({work(static_cast<double>(each->bytes())), {}, false});
    }
    device_->synchronize();
    learned_.learn(walk.record(), *device_);
  }

  const std::unique_ptr<device::Device> device_ = test::make_device({});
  test::WantedBlocks blocks_;
  Learned learned_;
  std::uint64_t walks_ = 100;
};

TEST_F(LearnedTest, LearnsTheTimeOfComputeBetweenUsesWithoutItsStalls) {
  device::Stream& link = device_->create_stream("link");
  std::vector<Block*> order{&block(10), &block(20)};
  Walk walk(1, order, work(5));
  const Event first = work(3);
  const tensor::StorageRef storage =
      tensor::Storage::allocate(*device_, 64, Purpose::kActivations);
  std::byte* host = device_->host_memory().pin(64);
  const Event fetched = link.copy({.name = "fetch",
                                   .direction = device::CopyInfo::Direction::kHostToDevice,
                                   .device = storage->address(),
                                   .host = host,
                                   .bytes = 9});
  walk.note({first, fetched, true});
  const Event second = work(2);
  walk.note({second, {}, false});
  device_->synchronize();

  EXPECT_FALSE(learned_.find(walk.record().sizes).has_value());
  const Judgement judgement = learned_.learn(walk.record(), *device_);
  EXPECT_EQ(judgement.late, 1U);
  EXPECT_EQ(judgement.hits, 0U);
  ASSERT_TRUE(learned_.find(walk.record().sizes).has_value());
  // The first use came at 8, its fetch at 9, the second use at 10.
  EXPECT_EQ(learned_.find(walk.record().sizes)->gaps, (std::vector<double>{3, 1}));
  EXPECT_FALSE(learned_.find({11}).has_value());
  device_->destroy_stream(link);
  device_->host_memory().unpin(host, 64);
}

TEST_F(LearnedTest, LearnsNothingFromUsesOutOfOrder) {
  std::vector<Block*> order{&block(10), &block(20)};
  Walk walk(1, order, work(1));
  walk.ask(*order[1]);
  walk.note({work(1), {}, false});
  device_->synchronize();
  learned_.learn(walk.record(), *device_);
  EXPECT_TRUE(learned_.find(walk.record().sizes)->gaps.empty());
}

TEST_F(LearnedTest, LearnsNothingBeforeTheDeviceKnowsWhenThingsEnded) {
  std::vector<Block*> order{&block(10)};
  Walk walk(1, order, work(1));
  walk.ask(*order[0]);
  walk.note({work(1e9), {}, false});
  learned_.learn(walk.record(), *device_);
  EXPECT_TRUE(learned_.find(walk.record().sizes)->gaps.empty());
  device_->synchronize();
}

TEST_F(LearnedTest, ABackwardWithLayersLeftOutKeepsTheTimesOfTheOthers) {
  learn({3, 4, 5, 6, 7, 8});
  const std::optional<Lesson> lesson = learned_.find({3, 6, 7, 8});
  ASSERT_TRUE(lesson.has_value());
  EXPECT_EQ(lesson->gaps, (std::vector<double>{3, 6, 7, 8}));
}

TEST_F(LearnedTest, LearnsFromTheOrderThatIsMostAlike) {
  learn({3, 4, 5, 6});
  learn({9, 4, 5, 7});
  EXPECT_EQ(learned_.find({3, 4, 5, 6, 1})->gaps, (std::vector<double>{3, 4, 5, 6, 0}));
  EXPECT_FALSE(learned_.find({3, 1, 1, 1}).has_value());  // Less than half alike.
}

TEST_F(LearnedTest, RoomIsAskedForAtTheSameUsesInAnOrderWithSomeLeftOut) {
  std::vector<Block*> order;
  for (const std::size_t size : {3U, 4U, 5U, 6U, 7U}) order.push_back(&block(size));
  Walk walk(1, order);
  for (int i = 0; i < 2; ++i) walk.ask(*order[static_cast<std::size_t>(i)]);
  walk.fetched(*walk.next());
  walk.fetched(*walk.next());
  walk.gave_up(*order[3]);  // There is room for it and what follows from use 2 on.
  learned_.learn(walk.record(), *device_);
  EXPECT_EQ(learned_.find(walk.record().sizes)->not_before,
            (std::vector<std::ptrdiff_t>{-1, -1, -1, 2, 2}));
  EXPECT_EQ(learned_.find({3, 5, 6, 7})->not_before,
            (std::vector<std::ptrdiff_t>{-1, -1, 1, 1}));
}

TEST_F(LearnedTest, RemembersABoundedNumberOfOrdersTheLatest) {
  for (std::size_t size = 1; size <= 200; ++size) learn({size, size + 1000});
  EXPECT_LE(learned_.size(), 64U);
  EXPECT_TRUE(learned_.find({200, 1200}).has_value());
  EXPECT_FALSE(learned_.find({1, 1001}).has_value());
}

}  // namespace
}  // namespace ebb::offload
