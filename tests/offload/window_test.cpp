#include "offload/engine/window.h"

#include "gtest/gtest.h"

#include "tests/support/offload_world.h"

namespace ebb::offload {
namespace {

using namespace test;

class WindowTest : public testing::Test {
 protected:
  // A block whose copy takes about 0.26 ms.
  void send(Block& block, std::uint64_t seed) {
    const Tensor tensor = world.make(seed, 256 * kKiB, 1e-6);
    block.device = tensor.storage();
    block.span.bytes = tensor.bytes();
    block.pieces.push_back(
        {.span = block.span,
         .stored = world.store->put(block.device->address(), block.span.bytes,
                                    block.device->last_write())});
    block.device->used_until(block.pieces.front().stored->stored());
    window.push(block);
  }
  double end_of_compute() {
    const Event now = world.device.current_stream().record();
    world.device.synchronize();
    return world.device.ended_at(now).value_or(-1);
  }

  World world;
  Block a;
  Block b;
  Window window{world.device};
};

TEST_F(WindowTest, HoldsDeviceMemoryUntilComputeIsBehindTheCopy) {
  send(a, 1);
  send(b, 2);
  EXPECT_EQ(window.bytes(), 512 * kKiB);
  EXPECT_EQ(window.oldest(), &a);
  window.let_go(a, false);
  EXPECT_EQ(a.device, nullptr);
  EXPECT_FALSE(a.in_window);
  EXPECT_EQ(window.oldest(), &b);
  EXPECT_EQ(window.bytes(), 256 * kKiB);
  EXPECT_GT(end_of_compute(), 0.26e-3);
  window.remove(b);
  b.device.reset();
}

TEST_F(WindowTest, DoesNotMakeComputeWaitForACopyThatHasEnded) {
  send(a, 1);
  world.device.synchronize();
  const Event before = world.device.current_stream().record();
  window.let_go(a, true);
  EXPECT_EQ(world.device.current_stream().record(), before);
}

TEST_F(WindowTest, WhatIsTakenOutKeepsItsMemory) {
  send(a, 1);
  window.remove(a);
  EXPECT_NE(a.device, nullptr);
  EXPECT_EQ(window.oldest(), nullptr);
  EXPECT_EQ(window.bytes(), 0U);
  a.device.reset();
}

}  // namespace
}  // namespace ebb::offload
