#include "offload/store/host/host_store.h"

#include <cstring>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

#include "runtime/device/check/check_device.h"
#include "tests/support/devices.h"
#include "tests/support/fakes.h"
#include "tests/support/sim_orders.h"

namespace ebb::offload {
namespace {

constexpr std::size_t kBytes = 64 * 1024;

class HostStoreTest : public testing::TestWithParam<device::Order> {
 protected:
  HostStoreTest() {
    device::SimOptions options;
    options.profile = test::slow_profile();
    options.order = GetParam();
    device =
        device::make_check_device(device::make_sim_device(options, test::no_kernels()));
    link = std::make_unique<transfer::Link>(*device);
    pool = std::make_unique<PinnedPool>(memory, 4 * kBytes);
    store = std::make_unique<HostStore>(*link, *pool);
  }
  ~HostStoreTest() override {
    store.reset();
    link.reset();
    pool.reset();
  }

  std::uintptr_t filled(int value) {
    device::Stream& stream = device->current_stream();
    const std::uintptr_t address =
        device->memory().allocate(kBytes, Purpose::kActivations, stream);
    const device::Access access{address, kBytes, device::Access::Mode::kWrite};
    stream.launch(test::op("fill", 1, {&access, 1}), [=](void*) {
      std::memset(reinterpret_cast<void*>(address), value, kBytes);
    });
    return address;
  }
  // Brings `block` back, looks at it on the compute stream, and counts what is wrong.
  void expect(StoredBlock& block, int value, transfer::Priority priority) {
    device::Stream& stream = device->current_stream();
    const std::uintptr_t address =
        device->memory().allocate(kBytes, Purpose::kActivations, stream);
    const Event back = block.fetch(address, now(), priority);
    stream.wait(back, {device::StallCause::kH2DLate, "test"});
    const device::Access access{address, kBytes, device::Access::Mode::kRead};
    stream.launch(test::op("look", 1, {&access, 1}), [=, this](void*) {
      const auto* bytes = reinterpret_cast<const unsigned char*>(address);
      for (std::size_t i = 0; i < kBytes; ++i) wrong += bytes[i] != value;
    });
    device->memory().free(address, now());
  }
  Fence now() { return Fence(device->current_stream().record()); }

  test::FakeHostMemory memory;
  std::unique_ptr<device::CheckDevice> device;
  std::unique_ptr<transfer::Link> link;
  std::unique_ptr<PinnedPool> pool;
  std::unique_ptr<HostStore> store;
  std::size_t wrong = 0;
};

TEST_P(HostStoreTest, GivesBackWhatWasPutAsOftenAsAsked) {
  pool->reserve(4 * kBytes);
  std::vector<std::unique_ptr<StoredBlock>> blocks;
  for (int i = 0; i < 4; ++i) {
    const std::uintptr_t from = filled(i + 1);
    blocks.push_back(store->put(from, kBytes, now()));
    ASSERT_NE(blocks.back(), nullptr);
    device->memory().free(from, Fence(blocks.back()->stored()));
  }
  for (int i = 3; i >= 0; --i) {
    expect(*blocks[static_cast<std::size_t>(i)], i + 1, transfer::Priority::kBulk);
    expect(*blocks[static_cast<std::size_t>(i)], i + 1, transfer::Priority::kUrgent);
  }
  blocks.clear();
  device->synchronize();
  EXPECT_EQ(wrong, 0U);
  pool->collect();
  EXPECT_EQ(pool->stats().requested_bytes, 0U);
}

TEST_P(HostStoreTest, LendsABlocksRoomAgainOnlyWhenItsCopiesHaveEnded) {
  pool->reserve(kBytes);  // One block.
  for (int i = 0; i < 4; ++i) {
    const std::uintptr_t from = filled(i + 1);
    std::unique_ptr<StoredBlock> block = store->put(from, kBytes, now());
    while (block == nullptr) {
      const std::optional<Fence> room = store->next_room(kBytes);
      ASSERT_TRUE(room.has_value());
      room->wait();
      block = store->put(from, kBytes, now());
    }
    device->memory().free(from, Fence(block->stored()));
    expect(*block, i + 1, transfer::Priority::kBulk);
    block.reset();  // Its copies are still to come.
    EXPECT_EQ(pool->stats().retired_bytes, kBytes);
  }
  device->synchronize();
  EXPECT_EQ(wrong, 0U);
}

TEST_P(HostStoreTest, HoldsTheRoomOfABlockThatNobodyWaitsForUntilItsCopiesHaveEnded) {
  pool->reserve(kBytes);
  const std::uintptr_t address = filled(1);
  std::unique_ptr<StoredBlock> block = store->put(address, kBytes, now());
  const Event stored = block->stored();
  block.reset();  // Dropped while it is copied out,
  EXPECT_EQ(pool->stats().retired_bytes, kBytes);
  EXPECT_EQ(store->put(address, kBytes, now()), nullptr);
  stored.wait();

  block = store->put(address, kBytes, now());
  ASSERT_NE(block, nullptr);
  block->stored().wait();
  const Event back = block->fetch(address, now(), transfer::Priority::kBulk);
  block.reset();  // and while it is copied back, for a use that does not come.
  EXPECT_EQ(store->put(address, kBytes, now()), nullptr);
  back.wait();
  EXPECT_NE(store->put(address, kBytes, Fence(back)), nullptr);
  device->synchronize();
  device->memory().free(address, {});
}

TEST_P(HostStoreTest, SaysWhenThereIsNoRoomAndGrowsToItsCap) {
  const std::uintptr_t from = filled(1);
  EXPECT_EQ(store->put(from, kBytes, now()), nullptr);
  EXPECT_EQ(store->next_room(kBytes), std::nullopt);
  EXPECT_TRUE(store->grow(kBytes));
  const std::unique_ptr<StoredBlock> block = store->put(from, kBytes, now());
  EXPECT_NE(block, nullptr);
  EXPECT_FALSE(store->grow(4 * kBytes));  // Above the pool's cap: as far as that lets it.
  EXPECT_EQ(pool->stats().pinned_bytes, 4 * kBytes);
  device->synchronize();
  device->memory().free(from, {});
}

TEST_P(HostStoreTest, LetsTheHostBeAheadByAsMuchAsWasEverNeededAtOnce) {
  pool->reserve(4 * kBytes);
  const std::uintptr_t from = filled(1);
  std::vector<std::unique_ptr<StoredBlock>> blocks;
  blocks.push_back(store->put(from, kBytes, now()));
  blocks.push_back(store->put(from, kBytes, now()));
  blocks.clear();  // Two blocks' copies are under way, as many as were needed.
  EXPECT_TRUE(store->fence_before_put().empty());
  blocks.push_back(store->put(from, kBytes, now()));
  const Event third = blocks.back()->stored();
  blocks.clear();
  const Fence ahead = store->fence_before_put();
  EXPECT_FALSE(ahead.empty());
  ahead.wait();
  EXPECT_TRUE(store->fence_before_put().empty());  // It was the first of the three.
  third.wait();
  EXPECT_TRUE(store->fence_before_put().empty());
  device->synchronize();
  device->memory().free(from, {});
}

TEST_P(HostStoreTest, LetsTheHostBeAheadByTwoBlocksWhereBlocksLiveOneAtATime) {
  pool->reserve(4 * kBytes);
  const std::uintptr_t from = filled(1);
  std::unique_ptr<StoredBlock> block;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(store->fence_before_put().empty());
    block = store->put(from, kBytes, now());
    block.reset();
  }
  EXPECT_TRUE(store->fence_before_put().empty());
  block = store->put(from, kBytes, now());
  block.reset();
  EXPECT_FALSE(store->fence_before_put().empty());
  device->synchronize();
  EXPECT_TRUE(store->fence_before_put().empty());
  device->memory().free(from, {});
}

TEST_P(HostStoreTest, DoesNotCountWhatEndedBehindACopyThatRunsOn) {
  pool->reserve(4 * kBytes);
  const std::uintptr_t from = filled(1);
  std::vector<std::unique_ptr<StoredBlock>> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(store->put(from, kBytes, now()));
  blocks[2]->stored().wait();
  // The first is fetched behind work that takes long, the others are over with.
  const std::uintptr_t to =
      device->memory().allocate(kBytes, Purpose::kActivations, device->current_stream());
  device->current_stream().launch(test::op("long", 1e9), [](void*) {});
  const Event back = blocks[0]->fetch(to, now(), transfer::Priority::kBulk);
  blocks.clear();
  blocks.push_back(store->put(from, kBytes, Fence()));
  blocks.clear();  // Four blocks were given back, and three needed at once.
  EXPECT_FALSE(back.done());
  EXPECT_TRUE(store->fence_before_put().empty());
  device->synchronize();
  device->memory().free(from, {});
  device->memory().free(to, {});
}

INSTANTIATE_TEST_SUITE_P(AllOrders, HostStoreTest,
                         testing::ValuesIn(test::twenty_four_orders()),
                         [](const auto& order) { return test::order_name(order.param); });

}  // namespace
}  // namespace ebb::offload
