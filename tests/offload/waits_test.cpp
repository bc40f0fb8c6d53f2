// Every wait of the engine and of what it stands on is needed: with any one of them left
// out, the checker finds accesses without an order, bytes come back wrong, or the peak
// grows.

#include <map>
#include <string>

#include "gtest/gtest.h"

#include "tests/support/offload_world.h"
#include "tests/support/sim_orders.h"

namespace ebb::offload {
namespace {

using namespace test;

struct Outcome {
  std::uint64_t violations = 0;
  std::size_t wrong_words = 0;
  std::size_t peak_bytes = 0;
  std::size_t reserved_bytes = 0;  // More, if what is free cannot be taken.
  std::map<std::string, int> waits;
};

// Steps under a link that is too slow to be hidden, with blocks that are written in place,
// kept for a second backward, and fetched in another order than foreseen.
Outcome run(const std::string& site, const device::Order& order,
            device::Mistake mistake = device::Mistake::kNoWait) {
  World world({.order = order,
               .throw_on_violation = false,
               .d2h_bytes_per_second = 1.2e8,
               .h2d_bytes_per_second = 1.2e8});
  world.device.plant(site, mistake);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    std::vector<Saved> graph = forward(world, {.layers = 10}, seed);
    backward(world, graph, {}, /*retain=*/seed == 2);
    if (seed == 2) backward(world, graph, {});
    world.finish();
  }
  // Saved, not needed, and written over while its copy may be under way.
  for (std::uint64_t seed = 4; seed <= 6; ++seed) {
    const Tensor tensor = world.make(seed, 256 * kKiB, 1e-4);
    const Saved saved = save(world, tensor, seed, 0);
    tensor::written_in_place(tensor);
    world.write(tensor, seed + 100, 1e-4);
  }
  // Fetched at once, while its own copy out is still under way.
  std::vector<Saved> graph = forward(world, {.layers = 10, .forward_seconds = 1e-5}, 7);
  for (const std::size_t layer : {7U, 0U, 3U, 9U, 1U}) {
    world.check(graph[layer].packed->unpack(), graph[layer].seed, 1e-5);
    graph[layer].packed->used();
  }
  graph.clear();
  world.finish();
  return {world.checker->order().violations, world.wrong_words,
          world.device.memory().figures().peak_activation_bytes,
          world.device.memory().figures().peak_reserved_bytes, world.device.waits()};
}

class WaitsTest : public testing::TestWithParam<const char*> {};

TEST_P(WaitsTest, ATestFailsWithoutIt) {
  const Outcome sound = run("", {});
  EXPECT_EQ(sound.violations, 0U);
  EXPECT_EQ(sound.wrong_words, 0U);
  ASSERT_TRUE(sound.waits.contains(GetParam())) << "nobody waits there";
  ASSERT_GT(sound.waits.at(GetParam()), 0);

  const Outcome broken = run(GetParam(), {});
  EXPECT_TRUE(broken.violations > 0 || broken.wrong_words > 0 ||
              broken.peak_bytes > sound.peak_bytes ||
              broken.reserved_bytes > sound.reserved_bytes)
      << "peak " << broken.peak_bytes << " and " << sound.peak_bytes << ", reserved "
      << broken.reserved_bytes << " and " << sound.reserved_bytes;
}

constexpr const char* kOrder[] = {"store.put",  "store.fetch",         "store.stored",
                                  "engine.use", "tensor.launch.write", "memory.free"};
constexpr const char* kMemory[] = {"engine.window", "engine.fetch"};

INSTANTIATE_TEST_SUITE_P(Order, WaitsTest, testing::ValuesIn(kOrder));
INSTANTIATE_TEST_SUITE_P(Memory, WaitsTest, testing::ValuesIn(kMemory));

TEST(WaitsListTest, NamesEveryWaitThatIsAskedFor) {
  std::map<std::string, int> waits = run("", {}).waits;
  for (const char* site : kOrder) waits.erase(site);
  for (const char* site : kMemory) waits.erase(site);
  waits.erase("memory.allocate");  // The device's own: its tests are in tests/runtime.
  EXPECT_TRUE(waits.empty()) << waits.begin()->first;
}

// The checker finds a race whatever order things happened to run in; where they ran in a
// bad one, bytes are wrong, too.
class PlantedWaitsTest : public testing::TestWithParam<device::Mistake> {};

TEST_P(PlantedWaitsTest, TheWaitsThatKeepOrderAreMissedByTheCheckerInEveryOrder) {
  for (const char* site : kOrder) {
    bool wrong = false;
    for (const device::Order& order : twenty_four_orders()) {
      const Outcome broken = run(site, order, GetParam());
      EXPECT_GT(broken.violations, 0U) << site << " " << order_name(order);
      wrong = wrong || broken.wrong_words > 0;
    }
    std::printf("%-20s bytes %s\n", site, wrong ? "wrong" : "right by luck");
  }
}

INSTANTIATE_TEST_SUITE_P(LeftOut, PlantedWaitsTest,
                         testing::Values(device::Mistake::kNoWait));
INSTANTIATE_TEST_SUITE_P(TooEarly, PlantedWaitsTest,
                         testing::Values(device::Mistake::kTooEarly));

}  // namespace
}  // namespace ebb::offload
