#include "offload/engine/engine.h"

#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "allocator/error.h"
#include "tests/support/offload_world.h"
#include "tests/support/sim_orders.h"

namespace ebb::offload {
namespace {

using namespace test;

void expect_balanced(const World& world) {
  const EngineFigures figures = world.engine->figures();
  EXPECT_EQ(figures.d2h_bytes,
            figures.h2d_bytes + figures.revived_bytes + figures.dropped_bytes);
  EXPECT_EQ(figures.d2h_bytes, figures.offloaded_bytes);
}

void expect_nothing_left(World& world) {
  world.device.synchronize();
  world.pool.collect();
  EXPECT_EQ(world.pool.stats().requested_bytes, 0U);
  EXPECT_EQ(world.device.memory().figures().lent.total(), 0U);
  EXPECT_EQ(world.checker->order().violations, 0U);
  EXPECT_EQ(world.wrong_words, 0U);
}

class EngineOrderTest : public testing::TestWithParam<device::Order> {};

TEST_P(EngineOrderTest, BringsEveryBlockBackAsItWas) {
  World world({.order = GetParam()});
  for (std::uint64_t seed = 1; seed <= 4; ++seed) step(world, {.layers = 12}, seed);
  const EngineFigures figures = world.engine->figures();
  EXPECT_EQ(figures.offloaded_bytes, 4 * 12 * 256 * kKiB);
  EXPECT_EQ(figures.kept_bytes, 0U);
  EXPECT_GE(figures.h2d_bytes, figures.d2h_bytes * 8 / 10);
  EXPECT_GT(world.checker->order().accesses, 0U);
  expect_balanced(world);
  expect_nothing_left(world);
}

TEST_P(EngineOrderTest, WorksWhereTheLinkIsTooSlow) {
  World world(
      {.order = GetParam(), .d2h_bytes_per_second = 1e8, .h2d_bytes_per_second = 1e8});
  for (std::uint64_t seed = 1; seed <= 3; ++seed) step(world, {.layers = 10}, seed);
  expect_balanced(world);
  expect_nothing_left(world);
}

TEST_P(EngineOrderTest, WorksInLittleDeviceMemory) {
  World world({.order = GetParam(), .limit_bytes = 5 * 256 * kKiB});
  for (std::uint64_t seed = 1; seed <= 3; ++seed) step(world, {.layers = 10}, seed);
  expect_balanced(world);
  expect_nothing_left(world);
}

TEST_P(EngineOrderTest, WorksWhereThePoolLendsItsBlocksAgainAtOnce) {
  World world({.order = GetParam(), .pool_bytes = 10 * 256 * kKiB});
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    std::vector<Saved> graph = forward(world, {.layers = 10}, seed);
    backward(world, graph, {.layers = 10});  // The host runs on without waiting.
  }
  world.finish();
  EXPECT_EQ(world.engine->figures().kept_bytes, 0U);
  expect_balanced(world);
  expect_nothing_left(world);
}

INSTANTIATE_TEST_SUITE_P(AllOrders, EngineOrderTest,
                         testing::ValuesIn(twenty_four_orders()),
                         [](const auto& order) { return order_name(order.param); });

// --- bytes and virtual time do not depend on the order, nor on whether anything moves ---

TEST(EngineTest, OrdersAndDryRunsAgreeInEveryFigure) {
  const auto run = [](const WorldOptions& options) {
    World world(options);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) step(world, {}, seed);
    const EngineFigures figures = world.engine->figures();
    const device::MemoryFigures memory = world.device.memory().figures();
    return std::vector<double>{
        world.device.now(),
        static_cast<double>(memory.peak_bytes),
        static_cast<double>(memory.peak_reserved_bytes),
        static_cast<double>(figures.h2d_bytes),
        static_cast<double>(figures.revived_bytes),
        static_cast<double>(figures.hits),
        static_cast<double>(figures.late),
        static_cast<double>(figures.missed),
    };
  };
  const std::vector<double> expected = run({});
  for (const device::Order& order : twenty_four_orders()) {
    EXPECT_EQ(run({.order = order}), expected) << order_name(order);
  }
  EXPECT_EQ(run({.dry = true}), expected);
}

// --- memory ---

std::size_t peak_of(int layers, const WorldOptions& options = {}) {
  World world(options);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) step(world, {.layers = layers}, seed);
  return world.device.memory().figures().peak_activation_bytes;
}

TEST(EngineTest, ThePeakDoesNotGrowWithDepth) {
  EXPECT_EQ(peak_of(40), peak_of(8));
  EXPECT_LE(peak_of(40), 4 * 256 * kKiB);
}

TEST(EngineTest, ThePeakDoesNotGrowWithDepthWhereTheLinkIsTooSlow) {
  const WorldOptions slow{.d2h_bytes_per_second = 1e8, .h2d_bytes_per_second = 1e8};
  EXPECT_EQ(peak_of(40, slow), peak_of(8, slow));
  EXPECT_LE(peak_of(40, slow), 4 * 256 * kKiB);
}

TEST(EngineTest, KeepsEverythingOnTheDeviceUnderTheKeepPolicy) {
  World world({.engine = {.policy = Policy::kKeep, .min_offload_bytes = 1}});
  step(world, {});
  EXPECT_EQ(world.engine->figures().kept_bytes, 8 * 256 * kKiB);
  EXPECT_EQ(world.engine->figures().d2h_bytes, 0U);
  expect_nothing_left(world);
}

// --- time ---

double steady_step_seconds(const WorldOptions& options, const Chain& chain) {
  World world(options);
  step(world, chain, 1);
  step(world, chain, 2);
  const double begin = world.device.now();
  step(world, chain, 3);
  return world.device.now() - begin;
}

TEST(EngineTest, AFastLinkIsHidden) {
  // A block's copy takes a quarter of a layer's time.
  const double seconds = steady_step_seconds({}, {.layers = 20});
  EXPECT_LE(seconds, 1.001 * 40e-3);
}

TEST(EngineTest, ALinkThatJustKeepsUpIsHidden) {
  const double rate = 256.0 * 1024 / 0.97e-3;
  const double seconds = steady_step_seconds(
      {.d2h_bytes_per_second = rate, .h2d_bytes_per_second = rate}, {.layers = 20});
  EXPECT_LE(seconds, 1.001 * 40e-3);
}

TEST(EngineTest, ASlowLinkIsKeptBusy) {
  // A copy takes twice a layer's time: all but what stays on the device has to cross.
  const double copy = 2e-3;
  const double rate = 256.0 * 1024 / copy;
  const double seconds = steady_step_seconds(
      {.d2h_bytes_per_second = rate, .h2d_bytes_per_second = rate}, {.layers = 40});
  EXPECT_LE(seconds, 1.02 * (38 * copy + 38 * copy + 2e-3));
}

TEST(EngineTest, CountsWhatIsThereInTimeAndWhatIsLate) {
  World fast;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) step(fast, {}, seed);
  EXPECT_GT(fast.engine->figures().hits, 15U);
  EXPECT_EQ(fast.engine->figures().late, 0U);
  EXPECT_EQ(fast.engine->figures().missed, 0U);

  World slow({.d2h_bytes_per_second = 1e8, .h2d_bytes_per_second = 1e8});
  for (std::uint64_t seed = 1; seed <= 3; ++seed) step(slow, {}, seed);
  EXPECT_GT(slow.engine->figures().late, 15U);
}

// --- the host's memory ---

TEST(EngineTest, KeepsWhatTheStoreHasNoRoomForAndGrowsItAtTheStepsEnd) {
  World world({.pool_bytes = 64 * kMiB});
  PinnedPool small(world.base->host_memory(), 64 * kMiB);
  HostStore store(*world.link, small);
  world.engine = std::make_unique<Engine>(
      world.device, store,
      EngineOptions{.policy = Policy::kSaved, .min_offload_bytes = std::size_t{1024}});
  step(world, {}, 1);
  EXPECT_EQ(world.engine->figures().kept_bytes, 8 * 256 * kKiB);
  EXPECT_EQ(world.engine->figures().no_room_bytes, 8 * 256 * kKiB);
  EXPECT_EQ(small.stats().pin_calls, 1U);  // At the end.
  step(world, {}, 2);
  EXPECT_EQ(world.engine->figures().kept_bytes, 8 * 256 * kKiB);
  EXPECT_EQ(small.stats().pin_calls, 1U);
  EXPECT_EQ(world.wrong_words, 0U);
  world.engine.reset();
}

// --- lifetimes ---

TEST(EngineTest, AGraphDroppedWithoutBackwardLeavesNothing) {
  World world;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) forward(world, {}, seed);
  EXPECT_EQ(world.engine->figures().dropped_bytes, 3 * 8 * 256 * kKiB);
  step(world, {}, 4);
  expect_balanced(world);
  expect_nothing_left(world);
}

TEST(EngineTest, BackwardTwiceFetchesASecondTime) {
  World world;
  std::vector<Saved> graph = forward(world, {});
  backward(world, graph, {}, /*retain=*/true);
  EXPECT_EQ(world.engine->figures().refetched_bytes, 0U);
  backward(world, graph, {});
  EXPECT_EQ(world.engine->figures().refetched_bytes, 8 * 256 * kKiB);
  EXPECT_EQ(world.engine->figures().missed, 0U);
  world.finish();
  expect_balanced(world);
  expect_nothing_left(world);
}

TEST(EngineTest, InterleavedGraphsKeepApart) {
  World world;
  for (std::uint64_t round = 0; round < 3; ++round) {
    std::vector<Saved> a = forward(world, {}, 10 + round);
    std::vector<Saved> b = forward(world, {}, 20 + round);
    backward(world, b, {});
    std::vector<Saved> c = forward(world, {}, 30 + round);
    backward(world, a, {});
    c.clear();
    world.finish();
  }
  expect_balanced(world);
  expect_nothing_left(world);
}

TEST(EngineTest, ABackwardThatEndsInTheMiddleLeavesNothing) {
  World world;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    std::vector<Saved> graph = forward(world, {}, seed);
    std::vector<autograd::PackedTensor*> order;
    for (auto saved = graph.rbegin(); saved != graph.rend(); ++saved) {
      order.push_back(saved->packed.get());
    }
    world.engine->begin_backward(order);
    world.check(graph[7].packed->unpack(), graph[7].seed, 1e-3);
    world.check(graph[6].packed->unpack(), graph[6].seed, 1e-3);
    world.engine->end_backward();  // An exception.
    graph.clear();
    world.finish();
  }
  step(world, {}, 4);
  expect_balanced(world);
  expect_nothing_left(world);
}

TEST(EngineTest, AnotherOrderOfUseCostsFetchesOnDemandAndNothingElse) {
  World world;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    std::vector<Saved> graph = forward(world, {}, seed);
    std::vector<autograd::PackedTensor*> order;
    for (const Saved& saved : graph) order.push_back(saved.packed.get());
    world.engine->begin_backward(order);  // First to last,
    for (auto saved = graph.rbegin(); saved != graph.rend(); ++saved) {
      world.check(saved->packed->unpack(), saved->seed, 1e-3);  // and then it is not.
      saved->packed.reset();
    }
    world.engine->end_backward();
    world.finish();
  }
  EXPECT_GT(world.engine->figures().missed, 0U);
  expect_balanced(world);
  expect_nothing_left(world);
}

TEST(EngineTest, ABackwardInsideOfABackwardTakesWhatItNeeds) {
  World world;
  std::vector<Saved> outer = forward(world, {}, 1);
  std::vector<autograd::PackedTensor*> order;
  for (auto saved = outer.rbegin(); saved != outer.rend(); ++saved) {
    order.push_back(saved->packed.get());
  }
  world.engine->begin_backward(order);
  world.check(outer[7].packed->unpack(), outer[7].seed, 1e-3);
  std::vector<Saved> inner = forward(world, {}, 2);
  inner.push_back(std::move(outer[0]));  // The first to be used inside.
  outer.erase(outer.begin());
  backward(world, inner, {});
  for (auto saved = outer.rbegin(); saved != outer.rend(); ++saved) {
    world.check(saved->packed->unpack(), saved->seed, 1e-3);
    saved->packed.reset();
  }
  world.engine->end_backward();
  world.finish();
  expect_balanced(world);
  expect_nothing_left(world);
}

TEST(EngineTest, AGraphMayOutliveTheEngine) {
  World world;
  std::vector<Saved> graph = forward(world, {});
  world.engine.reset();
  world.check(graph[0].packed->unpack(), graph[0].seed, 1e-3);
  graph.clear();
  expect_nothing_left(world);
}

TEST(EngineTest, StepsOfDifferentLengthsLeaveNothing) {
  World world;
  std::uint64_t seed = 1;
  for (const int layers : {3, 9, 1, 5, 9, 3}) {
    step(world, {.layers = layers, .bytes = static_cast<std::size_t>(layers) * 100 * kKiB},
         seed++);
  }
  expect_balanced(world);
  expect_nothing_left(world);
}

TEST(EngineTest, SaysWhatWasSentInTheStep) {
  World world;
  step(world, {.layers = 3});
  const std::vector<SentBlock> blocks = world.engine->take_sent_blocks();
  ASSERT_EQ(blocks.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(blocks[i].bytes, 256 * kKiB);
    EXPECT_EQ(blocks[i].stage, static_cast<std::int32_t>(i));
    EXPECT_TRUE(blocks[i].used);
    EXPECT_TRUE(blocks[i].made.done());
  }
  EXPECT_TRUE(world.engine->take_sent_blocks().empty());
}

TEST(EngineTest, TheDefaultMinimumIsAQuarterOfWhatTheLatencyCosts) {
  device::Capability capability;
  capability.d2h = {1e9, 1e-3};
  capability.h2d = {1e9, 2e-3};
  EXPECT_EQ(default_min_offload_bytes(capability), 500'000U);
  capability.d2h = capability.h2d = {INFINITY, 0};
  EXPECT_EQ(default_min_offload_bytes(capability), 4096U);
}

}  // namespace
}  // namespace ebb::offload
