// What the engine does when a tensor is saved.

#include "gtest/gtest.h"

#include "tests/support/failing_new.h"
#include "tests/support/offload_world.h"
#include "tests/support/sim_orders.h"

namespace ebb::offload {
namespace {

using namespace test;
using autograd::SaveSite;

TEST(EngineSaveTest, TheInputsPolicySendsInputsOfSegmentsOnly) {
  World world({.engine = {.policy = Policy::kInputs, .min_offload_bytes = 1024}});
  const Tensor tensor = world.make(1, 64 * kKiB, 1e-6);
  EXPECT_EQ(world.engine->pack(tensor, {SaveSite::Kind::kSavedTensor, "op", 0}).packed,
            nullptr);
  EXPECT_NE(world.engine->pack(tensor, {SaveSite::Kind::kCheckpointInput, "op", 0}).packed,
            nullptr);
  EXPECT_EQ(world.engine->figures().kept_bytes, 64 * kKiB);
  EXPECT_EQ(world.engine->figures().offloaded_bytes, 64 * kKiB);
}

TEST(EngineSaveTest, KeepsWhatIsSmallOrNoActivation) {
  World world({.engine = {.policy = Policy::kSaved, .min_offload_bytes = 1024}});
  EXPECT_EQ(world.engine->pack(world.make(1, 1020, 1e-6), World::site(0)).packed, nullptr);
  EXPECT_NE(world.engine->pack(world.make(1, 1024, 1e-6), World::site(0)).packed, nullptr);
  const Tensor parameter =
      Tensor::empty(world.device, {1024}, DType::kF32, Purpose::kParameters);
  EXPECT_EQ(world.engine->pack(parameter, World::site(0)).packed, nullptr);
  EXPECT_EQ(world.engine->figures().kept_bytes, 1020U + 4096U);
}

TEST(EngineSaveTest, KeepsWhatIsOnAnotherDevice) {
  World world;
  World other;
  EXPECT_EQ(world.engine->pack(other.make(1, 64 * kKiB, 1e-6), World::site(0)).packed,
            nullptr);
}

TEST(EngineSaveTest, TensorsOverOneBlockShareOneCopyAndKeepTheirLayouts) {
  World world;
  std::unique_ptr<autograd::PackedTensor> plain;
  std::unique_ptr<autograd::PackedTensor> turned;
  {
    const Tensor tensor = world.make(1, 64 * kKiB, 1e-6).view({128, 128});
    plain = world.engine->pack(tensor, World::site(0)).packed;
    turned = world.engine->pack(tensor.transpose(0, 1), World::site(0)).packed;
  }
  EXPECT_EQ(world.engine->figures().offloaded_bytes, 64 * kKiB);
  EXPECT_EQ(world.engine->figures().shared_bytes, 64 * kKiB);
  const Tensor back = turned->unpack();
  EXPECT_EQ(back.strides(), (tensor::Shape{1, 128}));
  EXPECT_EQ(plain->unpack().strides(), (tensor::Shape{128, 1}));
  EXPECT_EQ(plain->unpack().storage(), back.storage());
  world.check(plain->unpack(), 1, 1e-6);
  turned.reset();
  world.check(plain->unpack(), 1, 1e-6);
  world.device.synchronize();
  EXPECT_EQ(world.wrong_words, 0U);
}

TEST(EngineSaveTest, AnExpandedTensorIsCopiedAtItsRealSize) {
  World world;
  std::unique_ptr<autograd::PackedTensor> packed;
  {
    const Tensor row = world.make(1, 16 * kKiB, 1e-6).view({1, 4096});
    packed = world.engine->pack(row.expand({1000, 4096}), World::site(0)).packed;
  }
  EXPECT_EQ(world.engine->figures().offloaded_bytes, 16 * kKiB);
  const Tensor back = packed->unpack();
  EXPECT_EQ(back.shape(), (tensor::Shape{1000, 4096}));
  EXPECT_EQ(back.strides(), (tensor::Shape{0, 1}));
}

TEST(EngineSaveTest, WaitsForTheStreamThatMadeTheTensorWhicheverIsCurrent) {
  // The tensor is made on one stream, saved while another is current, and the first runs
  // on.
  for (const device::Order& order : twenty_four_orders()) {
    World world({.order = order});
    device::Stream& usual = world.device.current_stream();
    device::Stream& other = world.device.create_stream("other");
    std::vector<Saved> graph;
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      world.device.set_current_stream(seed % 2 == 0 ? usual : other);
      const Tensor tensor = world.make(seed, 64 * kKiB, 1e-3);
      world.device.set_current_stream(seed % 2 == 0 ? other : usual);
      graph.push_back(save(world, tensor, seed, 0));
    }
    world.device.set_current_stream(other);
    backward(world, graph, {});
    world.device.synchronize();
    world.device.set_current_stream(usual);
    EXPECT_EQ(world.wrong_words, 0U) << order_name(order);
    EXPECT_EQ(world.checker->order().violations, 0U);
    world.device.destroy_stream(other);
  }
}

TEST(EngineSaveTest, AJobsOwnMemoryIsGivenBackWithTheCopyInItsFence) {
  World world;
  const std::uintptr_t address = world.device.memory().allocate(
      64 * kKiB, Purpose::kActivations, world.device.current_stream());
  bool given_back = false;
  std::unique_ptr<autograd::PackedTensor> packed;
  {
    const Tensor tensor =
        Tensor::from_blob(world.device, reinterpret_cast<void*>(address), {16 * 1024},
                          DType::kI32, [&](const Fence& last_use) {
                            given_back = true;
                            world.device.memory().free(address, last_use);
                          });
    world.write(tensor, 3, 1e-6);
    packed = world.engine->pack(tensor, World::site(0)).packed;
  }
  forward(world, {});
  EXPECT_TRUE(given_back);
  world.check(packed->unpack(), 3, 1e-6);
  world.device.synchronize();
  EXPECT_EQ(world.wrong_words, 0U);
  EXPECT_EQ(world.checker->order().violations, 0U);
}

TEST(EngineSaveTest, WaitsForWhatAJobWroteIntoItsOwnMemoryUnseen) {
  World world;
  const std::uintptr_t address = world.device.memory().allocate(
      64 * kKiB, Purpose::kActivations, world.device.current_stream());
  const auto over_it = [&](auto deleter) {
    return Tensor::from_blob(world.device, reinterpret_cast<void*>(address), {16 * 1024},
                             DType::kI32, deleter);
  };
  {
    const Tensor tensor = over_it(
        [&](const Fence& last_use) { world.device.memory().free(address, last_use); });
    // Another tensor writes, of which this one hears nothing.
    world.write(over_it([](const Fence&) {}), 3, 1e-6);
    const auto packed = world.engine->pack(tensor, World::site(0)).packed;
    world.device.synchronize();
  }
  EXPECT_EQ(world.checker->order().violations, 0U);
}

TEST(EngineSaveTest, WaitsForRoomOnTheHostAndCallsTheStallSo) {
  struct Stalls final : device::OpObserver {
    void on_op(const device::OpRecord& op) override {
      if (op.cause == device::StallCause::kHostFull) seconds += op.stall;
    }
    double seconds = 0;
  } stalls;
  // One block of room: the next save waits for the last one's copy, which compute does not.
  World world({.pool_bytes = 256 * kKiB, .d2h_bytes_per_second = 1e8});
  world.device.set_observer(&stalls);
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    forward(world, {.layers = 1, .forward_seconds = 1e-5}, seed);
  }
  world.finish();
  world.device.set_observer(nullptr);
  EXPECT_EQ(world.engine->figures().kept_bytes, 0U);
  EXPECT_GT(stalls.seconds, 0);
  EXPECT_EQ(world.wrong_words, 0U);
}

TEST(EngineSaveTest, ASaveThatFindsNoMemoryAtTheEndLeavesNothingBehind) {
  World world;
  const Tensor tensor = world.make(1, 256 * kKiB, 1e-3);
  std::unique_ptr<autograd::PackedTensor> packed;
  const auto pack = [&] { packed = world.engine->pack(tensor, World::site(0)).packed; };
  // The last allocation is that of the saved tensor, who is to own the block.
  std::size_t calls = 100;
  for (; calls > 0 && !fails_without_memory(calls, pack); --calls) packed.reset();
  ASSERT_GT(calls, 0U);
  EXPECT_EQ(packed, nullptr);
  EXPECT_EQ(world.engine->books().blocks, 0U);
  EXPECT_EQ(world.engine->books().waiting_bytes, 0U);
  pack();
  world.check(packed->unpack(), 1, 1e-3);
  packed.reset();
  world.finish();
  EXPECT_EQ(world.wrong_words, 0U);
  const EngineFigures figures = world.engine->figures();
  EXPECT_EQ(figures.d2h_bytes,
            figures.h2d_bytes + figures.revived_bytes + figures.dropped_bytes);
  world.pool.collect();
  EXPECT_EQ(world.pool.stats().lent_bytes + world.pool.stats().retired_bytes, 0U);
}

}  // namespace
}  // namespace ebb::offload
