// What the engine does in backward.

#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/offload_world.h"

namespace ebb::offload {
namespace {

using namespace test;

std::vector<autograd::PackedTensor*> reversed(const std::vector<Saved>& graph) {
  std::vector<autograd::PackedTensor*> order;
  for (auto saved = graph.rbegin(); saved != graph.rend(); ++saved) {
    order.push_back(saved->packed.get());
  }
  return order;
}

TEST(EngineUseTest, RevivesWhatIsStillOnTheDevice) {
  World world;
  std::vector<Saved> graph = forward(world, {.layers = 4});
  const auto order = reversed(graph);
  world.engine->begin_backward(order);
  world.check(graph[3].packed->unpack(), graph[3].seed, 1e-3);
  EXPECT_EQ(world.engine->figures().revived_bytes, 256 * kKiB);
  world.engine->end_backward();
  graph.clear();
  world.finish();
  EXPECT_EQ(world.wrong_words, 0U);
}

TEST(EngineUseTest, HoldsNoMoreThanTwoOfTheLargestBlocksBeforeTheirUse) {
  // The first step knows no times, so nothing but the limit holds it back.
  World world;
  std::vector<Saved> graph = forward(world, {.layers = 12});
  world.device.synchronize();
  const std::size_t before = world.device.memory().figures().lent.total();
  const auto order = reversed(graph);
  world.engine->begin_backward(order);
  EXPECT_LE(world.device.memory().figures().lent.total(), before + 2 * 256 * kKiB);
  for (auto saved = graph.rbegin(); saved != graph.rend(); ++saved) {
    world.check(saved->packed->unpack(), saved->seed, 1e-3);
    // The one in use, and two ahead.
    EXPECT_LE(world.device.memory().figures().lent.total(), 3 * 256 * kKiB);
    saved->packed.reset();
  }
  world.engine->end_backward();
  world.finish();
}

TEST(EngineUseTest, LooksNoFartherAheadThanHidesTheLinkOnceItKnowsTheTimes) {
  // Small blocks beside one large one: the limit would let eight small ones be ahead.
  World world;
  const auto run = [&](std::uint64_t seed) {
    std::vector<Saved> graph;
    for (int i = 0; i < 12; ++i) {
      const std::size_t bytes = i == 0 ? 1024 * kKiB : 256 * kKiB;
      const std::uint64_t number = seed * 100 + static_cast<std::uint64_t>(i);
      graph.push_back(save(world, world.make(number, bytes, 2e-3), number, i));
    }
    const auto order = reversed(graph);
    world.engine->begin_backward(order);
    std::size_t most = 0;
    for (std::size_t i = 12; i-- > 0;) {
      world.check(graph[i].packed->unpack(), graph[i].seed, 2e-3);
      if (i < 5 && i > 1) {  // Behind the window.
        most = std::max(most, world.device.memory().figures().lent.total());
      }
      graph[i].packed.reset();
    }
    world.engine->end_backward();
    world.finish();
    return most;
  };
  const std::size_t first = run(1);
  const std::size_t third = (run(2), run(3));
  EXPECT_LT(third, first);
  // In use, one that hides the link, one block more: 0.26 ms of copy in 2 ms of compute.
  EXPECT_LE(third, (2 * 256 + 1024) * kKiB);
  EXPECT_EQ(world.engine->figures().late, 0U);
}

TEST(EngineUseTest, PutsOffAPrefetchThatDoesNotFitAndGivesWayToCompute) {
  World world({.limit_bytes = 6 * 256 * kKiB});
  std::vector<Saved> graph = forward(world, {.layers = 10});
  const auto order = reversed(graph);
  world.engine->begin_backward(order);
  for (auto saved = graph.rbegin(); saved != graph.rend(); ++saved) {
    world.check(saved->packed->unpack(), saved->seed, 1e-3);
    saved->packed.reset();
    // Compute's own memory: what is fetched ahead is given up for it.
    const Tensor transient = world.make(99, 5 * 256 * kKiB, 1e-3);
    world.check(transient, 99, 1e-3);
  }
  world.engine->end_backward();
  world.finish();
  EXPECT_EQ(world.wrong_words, 0U);
  const EngineFigures figures = world.engine->figures();
  EXPECT_EQ(figures.d2h_bytes,
            figures.h2d_bytes + figures.revived_bytes + figures.dropped_bytes);
}

TEST(EngineUseTest, FetchesNothingAheadThatHadNoRoomBesideComputeInTheStepBefore) {
  World world({.limit_bytes = 6 * 256 * kKiB});
  std::size_t before = 0;
  const auto fetched_twice = [&](std::uint64_t seed) {
    std::vector<Saved> graph = forward(world, {.layers = 10}, seed);
    world.engine->begin_backward(reversed(graph));
    for (auto saved = graph.rbegin(); saved != graph.rend(); ++saved) {
      world.check(saved->packed->unpack(), saved->seed, 1e-3);
      saved->packed.reset();
      world.make(99, 5 * 256 * kKiB, 1e-3);
    }
    world.engine->end_backward();
    world.finish();
    const std::size_t now = world.engine->figures().refetched_bytes;
    return now - std::exchange(before, now);
  };
  EXPECT_GT(fetched_twice(1), 0U);  // Given up for compute, and fetched again.
  EXPECT_EQ(fetched_twice(2), 0U);
  EXPECT_EQ(fetched_twice(3), 0U);
  EXPECT_EQ(world.wrong_words, 0U);
}

}  // namespace
}  // namespace ebb::offload
