// Ways in which other systems got gradients silently wrong, each as a test of its kind, in
// every order, under the order checker.

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/offload_world.h"
#include "tests/support/sim_orders.h"

namespace ebb::offload {
namespace {

using namespace test;

class CasesTest : public testing::TestWithParam<device::Order> {
 protected:
  void expect_sound(World& world) {
    world.finish();
    EXPECT_EQ(world.wrong_words, 0U);
    EXPECT_EQ(world.checker->order().violations, 0U);
  }
  WorldOptions slow_out() {
    return {.order = GetParam(), .limit_bytes = 8 * kMiB, .d2h_bytes_per_second = 1e8};
  }
};

TEST_P(CasesTest, ASavedViewIsFreedWhileItsCopyStillReads) {
  World world(slow_out());
  std::vector<Saved> views;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Tensor whole = world.make(seed, 256 * kKiB, 1e-5);
    const Tensor view = whole.slice(0, 1000, 50000);
    views.push_back(save(world, view, seed, 0));
    whole = {};  // The view's storage goes when the engine lets go of it.
  }
  for (Saved& saved : views) {
    world.check(saved.packed->unpack(), saved.seed, 1e-5, device::Phase::kBackward, 1000);
    saved.packed.reset();
  }
  expect_sound(world);
}

TEST_P(CasesTest, APinnedBlockIsLentToTheNextStepBeforeItsLastCopyIsDone) {
  World world({.order = GetParam(),
               .pool_bytes = 10 * 256 * kKiB,  // No block to spare.
               .h2d_bytes_per_second = 1e8});
  const Chain chain{.layers = 10, .forward_seconds = 1e-5, .backward_seconds = 1e-5};
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    std::vector<Saved> graph = forward(world, chain, seed);
    backward(world, graph, chain);
  }
  EXPECT_EQ(world.engine->figures().kept_bytes, 0U);
  expect_sound(world);
}

TEST_P(CasesTest, APinnedBlockIsLentAgainWhileItIsFetchedForAUseThatDoesNotCome) {
  World world({.order = GetParam(),
               .pool_bytes = 4 * 256 * kKiB,  // No block to spare.
               .h2d_bytes_per_second = 1e8});
  const Chain chain{.layers = 4, .forward_seconds = 1e-3, .backward_seconds = 1e-5};
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    std::vector<Saved> graph = forward(world, chain, seed);
    std::vector<autograd::PackedTensor*> order;
    for (const Saved& saved : graph) {
      if (saved.packed) order.push_back(saved.packed.get());
    }
    world.engine->begin_backward(order);
    world.engine->end_backward();
  }
  EXPECT_GT(world.engine->figures().h2d_bytes, 0U);
  std::vector<Saved> graph = forward(world, chain, 6);
  backward(world, graph, chain);
  expect_sound(world);
}

TEST_P(CasesTest, APinnedBlockIsLentToAnotherEnginesSaveWhileItIsStillWritten) {
  World world(
      {.order = GetParam(), .pool_bytes = 4 * 256 * kKiB, .d2h_bytes_per_second = 1e8});
  transfer::Link link(world.device);
  HostStore store(link, world.pool);
  auto other = std::make_unique<Engine>(world.device, store, WorldOptions().engine);
  const Chain chain{.layers = 3, .forward_seconds = 1e-5, .backward_seconds = 1e-5};
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    forward(world, chain, seed);  // Its graph is dropped at once.
    std::swap(world.engine, other);
    std::vector<Saved> graph = forward(world, chain, seed + 100);
    backward(world, graph, chain);
  }
  world.device.synchronize();
  other.reset();
  world.engine.reset();  // One of the two is over `store`.
  EXPECT_EQ(world.wrong_words, 0U);
  EXPECT_EQ(world.checker->order().violations, 0U);
}

TEST_P(CasesTest, AnotherStreamThanTheMakersIsCurrentWhenTheTensorIsSaved) {
  World world(slow_out());
  device::Stream& compute = world.device.current_stream();
  device::Stream& copies = world.device.create_stream("a job's copies");
  std::vector<Saved> graph;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const Tensor tensor = world.make(seed, 256 * kKiB, 1e-3);
    world.device.set_current_stream(copies);  // "Wait for compute", asked here, is nothing.
    graph.push_back(save(world, tensor, seed, 0));
    world.device.set_current_stream(compute);
  }
  backward(world, graph, {});
  expect_sound(world);
  world.device.destroy_stream(copies);
}

TEST_P(CasesTest, InTheFirstStepAFetchComesBeforeItsOwnCopyOutHasEnded) {
  World world(slow_out());
  std::vector<Saved> graph = forward(world, {.layers = 8, .forward_seconds = 1e-5});
  backward(world, graph, {.layers = 8, .backward_seconds = 1e-5});
  EXPECT_GT(world.engine->figures().h2d_bytes, 0U);
  expect_sound(world);
}

TEST_P(CasesTest, ASourceThatIsNotContiguousIsCopiedAsItLies) {
  World world(slow_out());
  std::unique_ptr<autograd::PackedTensor> packed;
  {
    const Tensor tensor = world.make(1, 256 * kKiB, 1e-3).view({256, 256});
    packed = world.engine->pack(tensor.transpose(0, 1), World::site(0)).packed;
  }
  forward(world, {}, 2);
  const Tensor back = packed->unpack();
  EXPECT_FALSE(back.contiguous());
  world.check(back.transpose(0, 1), 1, 1e-5);
  expect_sound(world);
}

TEST_P(CasesTest, TheJobChangesItsStreamAfterTheEngineWasMade) {
  World world(slow_out());
  device::Stream& before = world.device.current_stream();
  device::Stream& now = world.device.create_stream("later");
  world.device.set_current_stream(now);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) step(world, {}, seed);
  expect_sound(world);
  world.device.set_current_stream(before);
  world.device.destroy_stream(now);
}

TEST_P(CasesTest, AGraphsSavedTensorsGoWhileTheirCopiesStillRun) {
  World world(
      {.order = GetParam(), .pool_bytes = 4 * 256 * kKiB, .d2h_bytes_per_second = 1e8});
  // The host block of a dropped tensor is a temporary of its copy.
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    forward(world, {.layers = 2, .forward_seconds = 1e-5}, seed);
  }
  std::vector<Saved> graph = forward(world, {.layers = 4, .forward_seconds = 1e-5}, 13);
  backward(world, graph, {.layers = 4});
  expect_sound(world);
}

TEST_P(CasesTest, GraphsOfDifferentLengthsTakeTurns) {
  World world(slow_out());
  // What comes back is told by the tensor that was packed, not by its number in a graph.
  std::vector<Saved> first = forward(world, {.layers = 7}, 1);
  std::vector<Saved> second = forward(world, {.layers = 3}, 2);
  std::swap(first[2], second[1]);
  backward(world, first, {});
  backward(world, second, {});
  expect_sound(world);
}

TEST_P(CasesTest, StepsAreSoShortThatLoadsMeetTheNextStepsStores) {
  World world({.order = GetParam(),
               .limit_bytes = 2 * kMiB,
               .pool_bytes = 3 * 256 * kKiB,
               .d2h_bytes_per_second = 1e8,
               .h2d_bytes_per_second = 1e8});
  const Chain chain{.layers = 3, .forward_seconds = 1e-6, .backward_seconds = 1e-6};
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    std::vector<Saved> graph = forward(world, chain, seed);
    backward(world, graph, chain);
  }
  expect_sound(world);
}

INSTANTIATE_TEST_SUITE_P(AllOrders, CasesTest, testing::ValuesIn(twenty_four_orders()),
                         [](const auto& order) { return order_name(order.param); });

}  // namespace
}  // namespace ebb::offload
