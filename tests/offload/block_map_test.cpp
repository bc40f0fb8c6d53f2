#include "offload/engine/block_map.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "runtime/device/sim/sim_device.h"
#include "runtime/tensor/launch.h"
#include "tests/support/devices.h"
#include "tests/support/failing_new.h"

namespace ebb::offload {
namespace {

class BlockMapTest : public testing::Test {
 protected:
  BlockMap::Matches find(const tensor::StorageRef& storage, const Span& span) {
    return map_.find(storage->id(), storage->version()->value, span);
  }
  Block& join(const Span& span) {
    Pieces pieces;
    const auto parts = find(storage_, span);
    std::size_t begin = span.begin;
    for (const BlockMap::Match& part : parts) {
      if (part.span.begin > begin) {
        pieces.push_back({.span = {begin, part.span.begin - begin}, .stored = nullptr});
      }
      begin = part.span.end();
    }
    if (begin < span.end()) {
      pieces.push_back({.span = {begin, span.end() - begin}, .stored = nullptr});
    }
    return map_.join(storage_, span, std::move(pieces), parts);
  }
  tensor::StorageRef memory() {
    return tensor::Storage::allocate(*device_, 1000, Purpose::kActivations);
  }

  const std::unique_ptr<device::Device> device_ = test::make_device({});
  const tensor::StorageRef storage_ = memory();
  BlockMap map_;
};

TEST_F(BlockMapTest, FindsWhatOverlapsAndNotWhatOnlyTouches) {
  Block& low = join({100, 100});
  Block& high = join({300, 100});
  EXPECT_NE(&low, &high);
  EXPECT_TRUE(find(storage_, {0, 100}).empty());
  EXPECT_TRUE(find(storage_, {200, 100}).empty());
  EXPECT_TRUE(find(storage_, {400, 100}).empty());
  ASSERT_EQ(find(storage_, {199, 1}).size(), 1U);
  EXPECT_EQ(find(storage_, {199, 1})[0].block, &low);
  const auto both = find(storage_, {199, 102});
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].block, &low);
  EXPECT_EQ(both[1].block, &high);
}

TEST_F(BlockMapTest, TellsVersionsAndStoragesApart) {
  join({0, 100});
  EXPECT_TRUE(find(memory(), {0, 100}).empty());
  storage_->version()->value = 1;
  EXPECT_TRUE(find(storage_, {0, 100}).empty());
}

TEST_F(BlockMapTest, ABridgeMakesTwoBlocksOneAndTakesTheirViewsAlong) {
  Block& low = join({100, 100});
  Block& high = join({300, 100});
  BlockView a;
  BlockView b;
  low.attach(a);
  high.attach(b);
  low.wanted = high.wanted = 1;
  Block& whole = join({150, 200});
  EXPECT_EQ(map_.size(), 1U);
  EXPECT_EQ(a.block, &whole);
  EXPECT_EQ(b.block, &whole);
  EXPECT_EQ(whole.wanted, 2U);
  EXPECT_EQ(whole.span.begin, 100U);
  EXPECT_EQ(whole.bytes(), 300U);
  ASSERT_EQ(whole.pieces.size(), 3U);
  EXPECT_EQ(whole.pieces[1].span.begin, 200U);
  EXPECT_EQ(whole.pieces[1].span.bytes, 100U);
  const auto found = find(storage_, {0, 1000});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].span.bytes, 300U);
}

TEST_F(BlockMapTest, FindsABlockByTheCopiesOfItToo) {
  Block& block = join({100, 100});
  block.device = memory();
  block.device_begin = 40;
  map_.add_copy(block);
  const auto found = find(block.device, {50, 10});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].block, &block);
  EXPECT_FALSE(found[0].original);
  EXPECT_EQ(found[0].span.begin, 40U);
  EXPECT_EQ(found[0].block_begin, 100U);
  // Still, when it has become part of a larger one.
  join({300, 100});
  Block& whole = join({50, 300});
  const auto again = find(block.device, {50, 10});
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].block, &whole);
  EXPECT_EQ(again[0].block_begin, 100U);
}

TEST_F(BlockMapTest, ForgetsCopiesThatAreGoneOrWrittenWhenAnotherComes) {
  Block& block = join({100, 100});
  for (int i = 0; i < 5; ++i) {
    block.device = memory();
    map_.add_copy(block);
    EXPECT_EQ(block.copies.size(), 1U);
  }
  const tensor::StorageRef written = block.device;
  written->version()->value = 7;
  block.device = memory();
  map_.add_copy(block);
  EXPECT_EQ(block.copies.size(), 1U);
  EXPECT_TRUE(map_.find(written->id(), 0, {0, 1000}).empty());
}

TEST_F(BlockMapTest, NothingIsFoundOfABlockThatIsErased) {
  Block& block = join({100, 100});
  const tensor::StorageRef copy = block.device = memory();
  map_.add_copy(block);
  map_.erase(block);
  EXPECT_EQ(map_.size(), 0U);
  EXPECT_TRUE(find(storage_, {0, 1000}).empty());
  EXPECT_TRUE(find(copy, {0, 1000}).empty());
}

TEST_F(BlockMapTest, KeepsStoragesFromBeingTakenForUnseen) {
  Tensor tensor = Tensor::empty(*device_, {16}, DType::kF32);
  EXPECT_TRUE(tensor.unique());
  Block& block = map_.join(tensor.storage(), {0, 64}, {}, {});
  EXPECT_FALSE(tensor.unique());
  map_.erase(block);
  EXPECT_TRUE(tensor.unique());
}

TEST_F(BlockMapTest, IsAsItWasWhereThereIsNoMemoryToMakeBlocksOne) {
  std::vector<Block*> parts;
  for (const std::size_t begin : {100U, 300U, 500U}) {
    parts.push_back(&join({begin, 100}));
  }
  const auto join_all = [&] { join({0, 700}); };
  std::size_t calls = 0;
  for (; test::fails_without_memory(calls, join_all); ++calls) {
    ASSERT_EQ(map_.size(), 3U);
    const BlockMap::Matches found = find(storage_, {0, 1000});
    ASSERT_EQ(found.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(found[i].block, parts[i]);
      EXPECT_EQ(parts[i]->pieces.size(), 1U);
      EXPECT_EQ(parts[i]->span.bytes, 100U);
    }
  }
  EXPECT_GT(calls, 2U);
  ASSERT_EQ(map_.size(), 1U);
  const BlockMap::Matches found = find(storage_, {0, 1000});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].span.bytes, 700U);
  EXPECT_EQ(found[0].block->pieces.size(), 7U);
}

}  // namespace
}  // namespace ebb::offload
