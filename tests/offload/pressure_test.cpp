// What happens when host memory is full: each rung of the ladder, and each border.

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/alias_world.h"
#include "tests/support/errors.h"
#include "tests/support/sim_orders.h"

namespace ebb::offload {
namespace {

using namespace test;
using Code = absl::StatusCode;

constexpr std::size_t kBlock = 256 * kKiB;

EngineOptions with_budget(std::optional<std::size_t> bytes) {
  return {.policy = Policy::kSaved,
          .min_offload_bytes = std::size_t{1024},
          .device_budget_bytes = bytes};
}

autograd::SaveSite site(bool can_recompute) {
  autograd::SaveSite site = World::site(0);
  site.can_recompute = can_recompute;
  return site;
}

void expect_nothing_left(World& world) {
  world.finish();
  world.pool.collect();
  EXPECT_EQ(world.wrong_words, 0U);
  EXPECT_EQ(world.checker->order().violations, 0U);
  EXPECT_EQ(world.pool.stats().requested_bytes, 0U);
  EXPECT_EQ(world.device.memory().figures().lent.total(), 0U);
  EXPECT_EQ(world.engine->books().blocks, 0U);
  EXPECT_EQ(world.engine->books().held_bytes, 0U);
}

// --- 1: waiting ---

TEST(PressureTest, WaitsWhereWhatWasGivenBackLeavesRoom) {
  World world({.pool_bytes = kBlock, .d2h_bytes_per_second = 1e8});
  (void)forward(world, {.layers = 1}, 1);  // Its copy runs on.
  std::vector<Saved> graph = forward(world, {.layers = 1, .forward_seconds = 1e-6}, 2);
  EXPECT_EQ(world.engine->figures().room_waits, 1U);
  EXPECT_EQ(world.engine->figures().kept_bytes, 0U);
  backward(world, graph, {});
  expect_nothing_left(world);
}

TEST(PressureTest, TakesHostMemoryOfTwoMicroBatchesHoweverManyAStepHas) {
  // Seconds for a step of so many, and the most that the pool had out.
  const auto run = [](int micro_batches) {
    World world({.pool_bytes = 16 * 8 * kBlock});
    const Chain chain{.layers = 8};
    for (int i = 0; i < micro_batches; ++i) {
      std::vector<Saved> graph = forward(world, chain, static_cast<std::uint64_t>(i + 1));
      backward(world, graph, chain);
    }
    world.device.synchronize();
    const double seconds = world.device.now();
    expect_nothing_left(world);
    return std::pair(seconds, world.pool.stats().peak_taken_bytes);
  };
  const auto [one_seconds, one_bytes] = run(1);
  EXPECT_EQ(one_bytes, 8 * kBlock);
  const auto [seconds, bytes] = run(8);
  EXPECT_LE(bytes, 2 * one_bytes);
  EXPECT_LE(seconds, 8 * one_seconds * 1.0001);  // Nobody stood still for it.
}

// A callback of a simulated device has nobody to wait for.
TEST(PressureTest, ASaveInACallbackDoesNotWaitForEver) {
  for (const std::size_t blocks : {1U, 8U}) {  // For room; because of what was given back.
    World world({.pool_bytes = blocks * kBlock, .d2h_bytes_per_second = 1e6});
    for (std::uint64_t i = 1; i <= 3; ++i) (void)forward(world, {.layers = 1}, i);
    Tensor tensor = world.make(4, kBlock, 1e-6);
    autograd::PackResult saved = nullptr;
    world.device.current_stream().call_back(
        [&](const absl::Status&) { saved = world.engine->pack(tensor, site(false)); });
    EXPECT_THAT([&] { world.device.synchronize(); },
                fails_with(Code::kFailedPrecondition, "a callback waits"));
    EXPECT_NE(saved.packed, nullptr);
    saved.packed.reset();
    tensor = {};
    expect_nothing_left(world);
  }
}

TEST(PressureTest, DoesNotWaitForRoomThatIsOneByteTooSmall) {
  World world({.pool_bytes = kBlock, .d2h_bytes_per_second = 1e8});
  (void)forward(world, {.layers = 1}, 1);
  const double before = world.device.now();
  std::vector<Saved> graph;
  graph.push_back(save(world, world.make(2, kBlock + 4, 1e-6), 2, 0));
  EXPECT_LT(world.device.now(), before + 1e-4);  // The copy takes 2.6 ms.
  EXPECT_EQ(world.engine->figures().room_waits, 0U);
  EXPECT_EQ(world.engine->figures().no_room_bytes, kBlock + 4);
  backward(world, graph, {});
  expect_nothing_left(world);
}

TEST(PressureTest, DoesNotWaitForRoomThatIsInTwoParts) {
  World world({.pool_bytes = 3 * kBlock, .d2h_bytes_per_second = 1e8});
  std::vector<Saved> graph = forward(world, {.layers = 3, .forward_seconds = 1e-6}, 1);
  graph[0] = {};
  graph[2] = {};
  Saved large = save(world, world.make(2, 2 * kBlock, 1e-6), 2, 0);
  EXPECT_EQ(world.engine->figures().room_waits, 0U);
  EXPECT_EQ(world.engine->figures().no_room_bytes, 2 * kBlock);
  graph.clear();  // Now they are one.
  Saved another = save(world, world.make(3, 2 * kBlock, 1e-6), 3, 0);
  EXPECT_GT(world.engine->figures().room_waits, 0U);
  EXPECT_EQ(world.engine->figures().no_room_bytes, 2 * kBlock);
  world.check(another.packed->unpack(), 3, 1e-6);
  world.check(large.packed->unpack(), 2, 1e-6);
  another = {};
  large = {};
  expect_nothing_left(world);
}

// --- 2: keeping ---

// A pool that no block fits in.
constexpr std::size_t kNoPool = 4 * kKiB;

TEST(PressureTest, KeepsWhatNoRecomputeMakesWhereAsMuchIsFree) {
  for (const std::size_t short_of : {0U, 1U}) {
    World world({.pool_bytes = kNoPool, .engine = with_budget(4 * kBlock - short_of)});
    const Tensor others = world.make(9, 2 * kBlock, 1e-6);
    const Tensor tensor = world.make(1, kBlock, 1e-6);
    const auto pack = [&] { return world.engine->pack(tensor, site(false)).packed; };
    if (short_of == 0) {
      const auto packed = pack();
      EXPECT_NE(packed, nullptr);
      EXPECT_EQ(world.engine->books().held_bytes, kBlock);
      EXPECT_EQ(packed->unpack().storage(), tensor.storage());
    } else {
      EXPECT_THAT(pack, fails_with(Code::kResourceExhausted, "no host memory"));
    }
    EXPECT_EQ(world.engine->books().held_bytes, 0U);
    EXPECT_EQ(world.engine->figures().kept_bytes, short_of == 0 ? kBlock : 0);
  }
}

// A step that saves `layers` tensors of a segment, and one behind it that no recompute
// makes.
void segment_step(World& world, int layers, std::uint64_t seed) {
  std::vector<Saved> graph;
  for (int i = 0; i <= layers; ++i) {
    const std::uint64_t number = seed * 100 + static_cast<std::uint64_t>(i);
    const Tensor tensor = world.make(number, kBlock, 1e-5);
    autograd::PackResult result = world.engine->pack(tensor, site(i < layers));
    if (!result.recompute) graph.push_back({std::move(result.packed), {}, number});
  }
  backward(world, graph, {});
  world.finish();
}

TEST(PressureTest, KeepsWhatCouldBeMadeAgainInWhatNoStepTook) {
  const auto run = [](std::size_t budget) {
    World world({.pool_bytes = 4 * kBlock, .engine = with_budget(budget)});
    segment_step(world, 8, 1);  // Four go; nothing is known yet of what the last one needs.
    EXPECT_EQ(world.engine->figures().recomputed_bytes, 4 * kBlock);
    EXPECT_EQ(world.engine->figures().no_room_bytes, kBlock);
    const std::size_t taken = world.device.memory().figures().peak_reserved_bytes;
    segment_step(world, 8, 2);
    const std::size_t kept = world.engine->figures().no_room_bytes - 2 * kBlock;
    expect_nothing_left(world);
    return std::pair(taken, kept);
  };
  const std::size_t taken = run(64 * kMiB).first;
  EXPECT_EQ(run(64 * kMiB).second, 4 * kBlock);
  EXPECT_EQ(run(taken + 2 * kBlock).second, 2 * kBlock);
  EXPECT_EQ(run(taken + 2 * kBlock - 1).second, kBlock);
  EXPECT_EQ(run(taken).second, 0U);
}

TEST(PressureTest, WhatIsKeptIsRefusedWhenItWasWrittenSince) {
  World world({.pool_bytes = kNoPool});
  const Tensor tensor = world.make(1, kBlock, 1e-6);
  const auto packed = world.engine->pack(tensor, site(false)).packed;
  tensor::written_in_place(tensor);
  EXPECT_THAT([&] { (void)packed->unpack(); },
              fails_with(Code::kFailedPrecondition,
                         "check saved for backward was written in place"));
}

// --- 3 and 4: recomputing, growing ---

TEST(PressureTest, LeavesToARecomputeWhatItCannotKeep) {
  World world({.pool_bytes = kNoPool, .engine = with_budget(kBlock)});
  const Tensor tensor = world.make(1, kBlock, 1e-6);
  const autograd::PackResult result = world.engine->pack(tensor, site(true));
  EXPECT_EQ(result.packed, nullptr);
  EXPECT_TRUE(result.recompute);
  EXPECT_EQ(world.engine->figures().recomputed_bytes, kBlock);
  EXPECT_EQ(world.engine->figures().no_room_recomputed_bytes, kBlock);
  EXPECT_EQ(world.engine->figures().kept_bytes, 0U);
}

TEST(PressureTest, GrowsInMidStepBeforeItGivesUp) {
  World world({.engine = with_budget(kBlock)});
  PinnedPool pool(world.base->host_memory(), kBlock);  // Not a byte is pinned yet.
  HostStore store(*world.link, pool);
  Engine engine(world.device, store, with_budget(kBlock));
  const Tensor tensor = world.make(1, kBlock, 1e-6);
  const auto packed = engine.pack(tensor, site(false)).packed;
  EXPECT_EQ(engine.figures().offloaded_bytes, kBlock);
  EXPECT_EQ(pool.stats().pin_calls, 1U);
  const Tensor more = world.make(2, kBlock, 1e-6);
  EXPECT_THAT([&] { (void)engine.pack(more, site(false)); },
              fails_with(Code::kResourceExhausted));
  world.device.synchronize();
}

// --- 5: giving up ---

TEST(PressureTest, TellsHostMemoryFromDeviceMemory) {
  World world({.limit_bytes = 8 * kBlock,
               .pool_bytes = kNoPool,
               .engine = with_budget(8 * kBlock)});
  std::vector<Saved> graph = forward(world, {.layers = 4}, 1);  // All kept.
  const auto resource = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kResourceExhausted);
      return error.resource();
    }
    return Error::Resource::kOther;
  };
  const auto make_more = [&] { return world.make(5, 4 * kBlock + 512, 1e-6); };
  EXPECT_EQ(resource(make_more), Error::Resource::kDeviceMemory);
  EXPECT_THAT([&] { make_more(); },
              fails_with(Code::kResourceExhausted, "no device memory",
                         "1048576 are saved tensors that host memory had no room for",
                         "a larger host budget"));
  const Tensor last = world.make(5, kBlock, 1e-6);
  const Tensor others = world.make(6, 3 * kBlock, 1e-6);
  EXPECT_EQ(resource([&] { (void)world.engine->pack(last, site(false)); }),
            Error::Resource::kHostMemory);
}

class PressureOrderTest : public testing::TestWithParam<device::Order> {};

TEST_P(PressureOrderTest, AnErrorInMidForwardGivesEveryByteBackAndTheNextStepWorks) {
  World world({.order = GetParam(),
               .pool_bytes = 6 * kBlock,
               .d2h_bytes_per_second = 1e8,
               .engine = with_budget(3 * kBlock)});
  for (std::uint64_t round = 1; round <= 3; ++round) {
    EXPECT_THAT(
        [&] {
          std::vector<Saved> graph;
          for (std::uint64_t i = 0; i < 12; ++i) {
            graph.push_back(save(world, world.make(i, kBlock, 1e-6), i, 0));
          }
        },
        fails_with(Code::kResourceExhausted));
    expect_nothing_left(world);
    step(world, {.layers = 6, .forward_seconds = 1e-5}, round);
    expect_nothing_left(world);
  }
  EXPECT_EQ(world.engine->figures().d2h_bytes, world.engine->figures().offloaded_bytes);
}

// Random views under pressure: they go, are kept, or are refused, and all comes back.
TEST_P(PressureOrderTest, RandomSavesComeBackExactlyOrAreRefused) {
  std::size_t refused = 0;
  std::size_t held = 0;
  std::uint64_t waits = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    AliasWorld test(seed, {.order = GetParam(),
                           .limit_bytes = 2 * kMiB,
                           .pool_bytes = (8 + seed / 8) * 4 * kKiB,
                           .d2h_bytes_per_second = 1e8,
                           .engine = {.policy = Policy::kSaved,
                                      .min_offload_bytes = std::size_t{1},
                                      .device_budget_bytes = seed * 3 * kKiB}});
    std::vector<AliasWorld::Graph> graphs(3);
    for (int action = 0; action < 60; ++action) {
      AliasWorld::Graph& graph = graphs[test.below(3)];
      if (test.below(5) > 0) {
        const Known known = test.make(1024 + test.below(12 * kKiB));
        try {
          for (int i = 0; i < 3; ++i) graph.push_back(test.save(test.view(known)));
        } catch (const Error& error) {
          EXPECT_EQ(error.resource(), Error::Resource::kHostMemory);
          ++refused;
        }
        continue;
      }
      std::vector<autograd::PackedTensor*> order;
      for (const KnownSaved& saved : graph) order.push_back(saved.packed.get());
      std::erase(order, nullptr);
      test.world.engine->begin_backward(order);
      while (!graph.empty()) {
        (void)test.use(graph.back());
        test.drop(graph.back());
        graph.pop_back();
      }
      test.world.engine->end_backward();
      if (test.below(3) == 0) test.settle();
    }
    for (AliasWorld::Graph& graph : graphs) {
      for (KnownSaved& saved : graph) test.drop(saved);
    }
    graphs.clear();
    test.settle();
    EXPECT_EQ(test.wrong, 0U) << "seed " << seed;
    expect_nothing_left(test.world);
    const EngineFigures figures = test.world.engine->figures();
    EXPECT_EQ(test.saved_bytes,
              figures.kept_bytes + figures.offloaded_bytes + figures.shared_bytes);
    held += figures.no_room_bytes;
    waits += figures.room_waits;
  }
  EXPECT_GT(refused, 20U);
  EXPECT_GT(held, 20 * kKiB);
  EXPECT_GT(waits, 20U);
}

TEST_P(PressureOrderTest, ADryRunDecidesAsARealOneDoes) {
  const auto run = [&](bool dry) {
    World world({.order = dry ? device::Order{} : GetParam(),
                 .dry = dry,
                 .check = !dry,
                 .pool_bytes = 3 * kBlock,
                 .d2h_bytes_per_second = 1e8,
                 .engine = with_budget(8 * kBlock)});
    std::vector<std::size_t> decisions;
    for (std::uint64_t round = 1; round <= 4; ++round) {
      std::vector<Saved> graph;
      for (std::uint64_t i = 0; i < 4 + 2 * round; ++i) {
        const Tensor tensor = world.make(i, kBlock, 1e-5);
        autograd::PackResult result = world.engine->pack(tensor, site(true));
        graph.push_back(
            {std::move(result.packed), result.recompute ? tensor : Tensor(), i});
      }
      backward(world, graph, {});
      world.finish();
      const EngineFigures figures = world.engine->figures();
      for (const std::size_t figure :
           {figures.no_room_bytes, figures.recomputed_bytes, figures.offloaded_bytes,
            static_cast<std::size_t>(figures.room_waits)}) {
        decisions.push_back(figure);
      }
    }
    return decisions;
  };
  const auto real = run(false);
  EXPECT_EQ(run(true), real);
  EXPECT_GT(real[real.size() - 4], 0U);  // Both happen.
  EXPECT_GT(real[real.size() - 3], 0U);
}

INSTANTIATE_TEST_SUITE_P(Orders, PressureOrderTest, testing::ValuesIn(all_orders()),
                         [](const auto& order) { return order_name(order.param); });

}  // namespace
}  // namespace ebb::offload
