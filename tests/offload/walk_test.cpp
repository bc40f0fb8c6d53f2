#include "offload/engine/walk.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

#include "runtime/device/sim/sim_device.h"
#include "tests/support/devices.h"
#include "tests/support/wanted_blocks.h"

namespace ebb::offload {
namespace {

class WalkTest : public testing::Test {
 protected:
  Block& block(std::size_t bytes) { return blocks_.add(bytes); }
  tensor::StorageRef memory() {
    return tensor::Storage::allocate(*device_, 64, Purpose::kActivations);
  }

  const std::unique_ptr<device::Device> device_ = test::make_device({});
  test::WantedBlocks blocks_;
};

TEST_F(WalkTest, ListsABlockOnceAtItsFirstUse) {
  Block& a = block(10);
  Block& b = block(20);
  const std::vector<Block*> order{&a, &b, &a};
  Walk walk(1, order);
  EXPECT_EQ(walk.record().sizes, (std::vector<std::size_t>{10, 20}));
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
  EXPECT_TRUE(walk.record().in_order);
  walk.ask(*order[2]);
  EXPECT_EQ(walk.now(), 0);
  EXPECT_FALSE(walk.record().in_order);
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
  EXPECT_EQ(walk.record().not_before, (std::vector<std::ptrdiff_t>{-1, -1, 1, 1}));
}

}  // namespace
}  // namespace ebb::offload
