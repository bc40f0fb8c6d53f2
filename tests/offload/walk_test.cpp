#include "offload/engine/walk.h"

#include <algorithm>
#include <deque>
#include <vector>

#include "gtest/gtest.h"

#include "runtime/device/sim/sim_device.h"
#include "tests/support/devices.h"

namespace ebb::offload {
namespace {

class WalkTest : public testing::Test {
 protected:
  Block& block(std::size_t bytes) {
    Block& made = blocks_.emplace_back();
    made.key.bytes = bytes;
    made.wanted = 1;
    return made;
  }
  tensor::StorageRef memory() {
    return tensor::Storage::allocate(*device_, 64, Purpose::kActivations);
  }

  const std::unique_ptr<device::Device> device_ = test::make_device({});
  std::deque<Block> blocks_;
};

TEST_F(WalkTest, ListsABlockOnceAtItsFirstUse) {
  Block& a = block(10);
  Block& b = block(20);
  const std::vector<Block*> order{&a, &b, &a};
  Walk walk(1, order);
  EXPECT_EQ(walk.sizes, (std::vector<std::size_t>{10, 20}));
  EXPECT_EQ(a.position, 0U);
  EXPECT_EQ(b.position, 1U);
  EXPECT_TRUE(walk.lists(a));
}

TEST_F(WalkTest, FetchesInOrderWhatIsNeitherThereNorAskedForNorUnwanted) {
  Block& there = block(10);
  there.device = memory();
  Block& unwanted = block(20);
  unwanted.wanted = 0;
  Block& asked = block(30);
  Block& next = block(40);
  const std::vector<Block*> order{&there, &unwanted, &asked, &next};
  Walk walk(1, order);
  walk.ask(asked);
  EXPECT_EQ(walk.next(), &next);
  walk.fetched(next);
  EXPECT_EQ(walk.next(), nullptr);
}

TEST_F(WalkTest, CountsTheBytesThatAreThereBeforeTheirUse) {
  Block& there = block(10);
  there.device = memory();
  Block& later = block(20);
  const std::vector<Block*> order{&there, &later};
  Walk walk(1, order);
  EXPECT_EQ(walk.ahead_bytes(), 10U);
  ASSERT_EQ(walk.next(), &later);
  walk.fetched(later);
  EXPECT_EQ(walk.ahead_bytes(), 30U);
  EXPECT_EQ(walk.farthest_ahead(), &later);
  walk.lost(later);
  EXPECT_EQ(walk.ahead_bytes(), 10U);
  EXPECT_EQ(walk.next(), &later);  // It is fetched again.
  walk.ask(there);
  EXPECT_EQ(walk.ahead_bytes(), 0U);
}

TEST_F(WalkTest, KnowsHowFarUsesHaveComeInOrder) {
  std::vector<Block*> order;
  for (int i = 0; i < 4; ++i) order.push_back(&block(10));
  Walk walk(1, order);
  EXPECT_EQ(walk.now(), -1);
  walk.ask(*order[0]);
  EXPECT_EQ(walk.now(), 0);
  EXPECT_TRUE(walk.in_order);
  walk.ask(*order[2]);
  EXPECT_EQ(walk.now(), 0);
  EXPECT_FALSE(walk.in_order);
  walk.forget(*order[1]);
  walk.ask(*order[3]);
  EXPECT_EQ(walk.now(), 3);
}

TEST_F(WalkTest, LeavesOutOfTheBytesAheadWhatStillWaitsInTheWindow) {
  Block& waits = block(10);
  waits.device = memory();
  waits.in_window = true;
  const std::vector<Block*> order{&waits};
  Walk walk(1, order);
  EXPECT_EQ(walk.ahead_bytes(), 10U);
  EXPECT_EQ(walk.farthest_ahead(), nullptr);  // There is no other copy of it yet.
}

TEST_F(WalkTest, HasNoRoomForWhatWasGivenUpBeforeTheNextUse) {
  std::vector<Block*> order;
  for (int i = 0; i < 4; ++i) order.push_back(&block(10));
  Walk walk(1, order);
  walk.ask(*order[0]);
  for (int i = 1; i < 4; ++i) walk.fetched(*walk.next());
  walk.gave_up(*order[2]);
  EXPECT_EQ(walk.next(), order[2]);  // It is fetched again;
  EXPECT_TRUE(walk.has_room(*order[1]));
  EXPECT_FALSE(walk.has_room(*order[2]));
  EXPECT_FALSE(walk.has_room(*order[3]));  // nor is there room for it and one more,
  walk.ask(*order[1]);
  EXPECT_TRUE(walk.has_room(*order[2]));  // until the next use.
  EXPECT_TRUE(walk.has_room(*order[3]));
  EXPECT_EQ(walk.not_before, (std::vector<std::ptrdiff_t>{-1, -1, 1, 1}));
}

class LearnedTest : public WalkTest {
 protected:
  // Ops of `seconds` each; their ends.
  Event work(double seconds) {
    return device_->current_stream().launch(test::op("work", seconds), [](void*) {});
  }
};

TEST_F(LearnedTest, LearnsTheTimeOfComputeBetweenUsesWithoutItsStalls) {
  device::Stream& link = device_->create_stream("link");
  std::vector<Block*> order{&block(10), &block(20)};
  Walk walk(1, order);
  walk.began = work(5);
  const Event first = work(3);
  const tensor::StorageRef storage = memory();
  std::byte* host = device_->host_memory().pin(64);
  const Event fetched = link.copy({.name = "fetch",
                                   .direction = device::CopyInfo::Direction::kHostToDevice,
                                   .device = storage->address(),
                                   .host = host,
                                   .bytes = 9});
  walk.uses.push_back({first, fetched, true});
  const Event second = work(2);
  walk.uses.push_back({second, {}, false});
  device_->synchronize();

  Learned learned;
  EXPECT_EQ(learned.find(walk.sizes), nullptr);
  const Judgement judgement = learned.learn(walk, *device_);
  EXPECT_EQ(judgement.late, 1U);
  EXPECT_EQ(judgement.hits, 0U);
  ASSERT_NE(learned.find(walk.sizes), nullptr);
  // The first use came at 8, its fetch at 9, the second use at 10.
  EXPECT_EQ(learned.find(walk.sizes)->gaps, (std::vector<double>{3, 1}));
  EXPECT_EQ(learned.find({10}), nullptr);
  device_->destroy_stream(link);
  device_->host_memory().unpin(host, 64);
}

TEST_F(LearnedTest, LearnsNothingFromUsesOutOfOrder) {
  std::vector<Block*> order{&block(10), &block(20)};
  Walk walk(1, order);
  walk.began = work(1);
  walk.ask(*order[1]);
  walk.uses.push_back({work(1), {}, false});
  device_->synchronize();
  Learned learned;
  learned.learn(walk, *device_);
  EXPECT_TRUE(learned.find(walk.sizes)->gaps.empty());
}

TEST_F(LearnedTest, LearnsNothingBeforeTheDeviceKnowsWhenThingsEnded) {
  std::vector<Block*> order{&block(10)};
  Walk walk(1, order);
  walk.began = work(1);
  walk.ask(*order[0]);
  walk.uses.push_back({work(1e9), {}, false});
  Learned learned;
  learned.learn(walk, *device_);
  EXPECT_TRUE(learned.find(walk.sizes)->gaps.empty());
  device_->synchronize();
}

}  // namespace
}  // namespace ebb::offload
