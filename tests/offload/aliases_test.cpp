// Saved tensors that share bytes: views of all kinds, saved again, written in place.

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
using Packed = std::unique_ptr<autograd::PackedTensor>;

class AliasesTest : public testing::TestWithParam<device::Order> {
 protected:
  Packed pack(const Tensor& tensor) {
    return world_.engine->pack(tensor, World::site(0)).packed;
  }
  // What make(1) wrote there, from word `first` on.
  void look(const Tensor& tensor, std::size_t first = 0) {
    world_.check(tensor, 1, 1e-6, device::Phase::kBackward, first);
  }
  // Pushes everything out of the window, and uses its memory again.
  void push_out() { (void)forward(world_, {}, 77); }
  EngineFigures figures() const { return world_.engine->figures(); }
  void expect_sound() {
    world_.finish();
    EXPECT_EQ(world_.wrong_words, 0U);
    EXPECT_EQ(world_.checker->order().violations, 0U);
    EXPECT_EQ(figures().d2h_bytes,
              figures().h2d_bytes + figures().revived_bytes + figures().dropped_bytes);
    world_.pool.collect();
    EXPECT_EQ(world_.pool.stats().requested_bytes, 0U);
    EXPECT_EQ(world_.device.memory().figures().lent.total(), 0U);
  }

  World world_{{.order = GetParam(), .d2h_bytes_per_second = 3e8}};
};

TEST_P(AliasesTest, SlicesThatOverlapInPartShareTheBytesThatTheyShare) {
  Packed low;
  Packed high;
  {
    const Tensor tensor = world_.make(1, 256 * kKiB, 1e-6);
    low = pack(tensor.slice(0, 1, 40001));
    high = pack(tensor.slice(0, 30003, 65536));
  }
  EXPECT_EQ(figures().offloaded_bytes, 65535 * 4U);
  EXPECT_EQ(figures().shared_bytes, 9998 * 4U);
  EXPECT_EQ(world_.pool.stats().requested_bytes, 65535 * 4U);
  push_out();
  const Tensor back = high->unpack();
  look(back, 30003);
  EXPECT_EQ(low->unpack().storage(), back.storage());
  look(low->unpack(), 1);
  high.reset();
  low.reset();
  const_cast<Tensor&>(back) = {};
  expect_sound();
}

TEST_P(AliasesTest, AViewThatBridgesTwoBlocksMakesThemOne) {
  Packed low;
  Packed high;
  Packed bridge;
  {
    const Tensor tensor = world_.make(1, 256 * kKiB, 1e-6);
    low = pack(tensor.slice(0, 0, 20000));
    high = pack(tensor.slice(0, 40000, 60000));
    EXPECT_EQ(figures().shared_bytes, 0U);
    bridge = pack(tensor.slice(0, 10000, 50000));
  }
  EXPECT_EQ(figures().offloaded_bytes, 60000 * 4U);
  EXPECT_EQ(figures().shared_bytes, 20000 * 4U);
  EXPECT_EQ(world_.engine->books().blocks, 1U);
  push_out();
  low.reset();
  look(bridge->unpack(), 10000);
  look(high->unpack(), 40000);
  bridge.reset();
  high.reset();
  expect_sound();
}

TEST_P(AliasesTest, ViewsThatOnlyTouchAreBlocksOfTheirOwn) {
  Packed low;
  Packed high;
  {
    const Tensor tensor = world_.make(1, 256 * kKiB, 1e-6);
    low = pack(tensor.slice(0, 0, 30000));
    high = pack(tensor.slice(0, 30000, 65536));
  }
  EXPECT_EQ(world_.engine->books().blocks, 2U);
  EXPECT_EQ(figures().shared_bytes, 0U);
  push_out();
  low.reset();
  EXPECT_EQ(world_.engine->books().blocks, 1U);
  look(high->unpack(), 30000);
  high.reset();
  expect_sound();
}

TEST_P(AliasesTest, ATensorThatIsStillThereAtItsUseIsUsedWhereItIs) {
  const Tensor tensor = world_.make(1, 256 * kKiB, 1e-6);
  Packed alone = pack(tensor);
  push_out();
  world_.finish();
  // Fetched by nobody: not on demand,
  EXPECT_EQ(alone->unpack().storage(), tensor.storage());
  look(alone->unpack());
  alone->used();
  // and not ahead.
  autograd::PackedTensor* order[] = {alone.get()};
  world_.engine->begin_backward(order);
  EXPECT_EQ(alone->unpack().storage(), tensor.storage());
  world_.engine->end_backward();
  EXPECT_EQ(figures().revived_bytes, 256 * kKiB);
  EXPECT_EQ(figures().h2d_bytes + figures().refetched_bytes, 0U);
  alone.reset();
  const_cast<Tensor&>(tensor) = {};
  expect_sound();
}

TEST_P(AliasesTest, AJobsOwnMemoryIsNotReliedOnLater) {
  // The job may write it without telling us, once compute is behind the copy.
  const std::uintptr_t address = world_.device.memory().allocate(
      64 * kKiB, Purpose::kActivations, world_.device.current_stream());
  Tensor tensor = Tensor::from_blob(
      world_.device, reinterpret_cast<void*>(address), {16 * 1024}, DType::kI32,
      [&](const Fence& last_use) { world_.device.memory().free(address, last_use); });
  world_.write(tensor, 1, 1e-6);
  Packed packed = pack(tensor);
  push_out();
  world_.write(tensor, 2, 1e-6);
  const Tensor back = packed->unpack();
  EXPECT_NE(back.storage(), tensor.storage());
  look(back);
  packed.reset();
  const_cast<Tensor&>(back) = {};
  tensor = {};
  expect_sound();
}

TEST_P(AliasesTest, SavingWhatCameBackIsTheSameBlock) {
  Packed first;
  {
    const Tensor tensor = world_.make(1, 256 * kKiB, 1e-6);
    first = pack(tensor.slice(0, 1000, 60000));
  }
  push_out();
  const std::size_t on_host = world_.pool.stats().requested_bytes;
  Packed again;
  {
    const Tensor back = first->unpack();
    again = pack(back.slice(0, 500, 20000));
    first.reset();  // The first graph is over.
  }
  EXPECT_EQ(world_.pool.stats().requested_bytes, on_host);
  EXPECT_EQ(figures().shared_bytes, 19500 * 4U);
  push_out();
  look(again->unpack(), 1500);
  EXPECT_EQ(figures().refetched_bytes, 59000 * 4U);
  again.reset();
  expect_sound();
}

TEST_P(AliasesTest, WhatCameBackAndWasWrittenInPlaceHarmsNobody) {
  Packed first;
  Packed second;
  {
    const Tensor tensor = world_.make(1, 256 * kKiB, 1e-6);
    first = pack(tensor);
    second = pack(tensor.slice(0, 1, 60000));
  }
  push_out();
  Packed other;
  Packed stale;
  {
    const Tensor back = first->unpack();
    EXPECT_EQ(second->unpack().storage(), back.storage());
    stale = pack(back);
    tensor::written_in_place(back);
    world_.write(back, 2, 1e-6);
    look(second->unpack(), 1);  // From the host.
    other = pack(back);         // Other bytes.
    EXPECT_EQ(world_.engine->books().blocks, 2U);
  }
  EXPECT_THAT([&] { (void)stale->unpack(); },
              fails_with(absl::StatusCode::kFailedPrecondition, "written in place since"));
  first.reset();
  push_out();
  world_.check(other->unpack(), 2, 1e-6);
  look(second->unpack(), 1);
  second.reset();
  other.reset();
  stale.reset();
  expect_sound();
}

TEST_P(AliasesTest, KeepsATensorThatWouldExtendABlockInUse) {
  const Tensor tensor = world_.make(1, 256 * kKiB, 1e-6);
  Packed part = pack(tensor.slice(0, 0, 30000));
  autograd::PackedTensor* order[] = {part.get()};
  world_.engine->begin_backward(order);
  EXPECT_EQ(pack(tensor), nullptr);
  EXPECT_EQ(figures().kept_bytes, 256 * kKiB);
  EXPECT_NE(pack(tensor.slice(0, 0, 20000)), nullptr);  // It shares.
  look(part->unpack());
  world_.engine->end_backward();
  Packed whole = pack(tensor);
  EXPECT_NE(whole, nullptr);
  whole.reset();
  part.reset();
  const_cast<Tensor&>(tensor) = {};
  expect_sound();
}

TEST_P(AliasesTest, ASmallViewDoesNotKeepALargeStorage) {
  Packed small;
  Packed none;
  {
    const Tensor tensor = world_.make(1, 256 * kKiB, 1e-6);
    small = pack(tensor.slice(0, 7, 9));
    none = pack(tensor.slice(0, 7, 7).view({0, 3}));
  }
  push_out();
  world_.finish();
  EXPECT_EQ(world_.device.memory().figures().lent.total(), 0U);
  EXPECT_EQ(world_.pool.stats().lent_bytes, PinnedPool::kGranularityBytes);
  look(small->unpack(), 7);
  EXPECT_EQ(none->unpack().shape(), (tensor::Shape{0, 3}));
  small.reset();
  expect_sound();
}

TEST_P(AliasesTest, AWindowThatBlocksGrowInHoldsNoMoreThanItMay) {
  const Tensor tensor = world_.make(1, 256 * kKiB, 1e-6);
  std::vector<Packed> views;
  for (std::int64_t i = 0; i + 3000 < 65536; i += 1000) {
    views.push_back(pack(tensor.slice(0, i, i + 3000)));
    EXPECT_LE(world_.engine->books().waiting_bytes, 256 * kKiB);
  }
  EXPECT_EQ(world_.engine->books().blocks, 1U);
  const_cast<Tensor&>(tensor) = {};
  push_out();
  for (std::size_t i = views.size(); i-- > 0;) look(views[i]->unpack(), i * 1000);
  views.clear();
  EXPECT_EQ(world_.engine->books().waiting_bytes, 0U);
  expect_sound();
}

INSTANTIATE_TEST_SUITE_P(AllOrders, AliasesTest, testing::ValuesIn(all_orders()),
                         [](const auto& order) { return order_name(order.param); });

// --- what stays where it is ---

TEST(StayingTest, WhatIsNoActivationOfThisDeviceStaysWhereItIs) {
  World world;
  World other;
  for (const Purpose purpose : {Purpose::kParameters, Purpose::kGradients,
                                Purpose::kOptimizer, Purpose::kWorkspace}) {
    const Tensor tensor = Tensor::empty(world.device, {65536}, DType::kF32, purpose);
    EXPECT_EQ(
        world.engine->pack(tensor.view({256, 256}).transpose(0, 1), World::site(0)).packed,
        nullptr);
  }
  EXPECT_EQ(world.engine->pack(other.make(1, 256 * kKiB, 1e-6), World::site(0)).packed,
            nullptr);
  EXPECT_EQ(world.engine->figures().d2h_bytes, 0U);
}

// --- at random ---

// A few storages; views of them, and of what came back, saved in graphs that live across
// each other; in-place writes to both; backwards in any order, with or without retaining.
struct Outcome {
  std::size_t wrong = 0;
  std::size_t kept = 0;
  EngineFigures figures;
};

Outcome run(std::uint64_t seed, const device::Order& order) {
  AliasWorld test(seed, {.order = order,
                         .limit_bytes = 4 * kMiB,
                         .d2h_bytes_per_second = seed % 3 == 0 ? 1e7 : 1e9,
                         .engine = {.policy = Policy::kSaved,
                                    .min_offload_bytes = std::size_t{seed % 2 * 1024}}});
  World& world = test.world;
  std::vector<Known> live;
  std::vector<AliasWorld::Graph> graphs(3);
  Outcome outcome;
  const auto save = [&] {
    if (live.empty()) return;
    const Known& known = live[test.below(live.size())];
    if (!known.valid()) return;
    const Known view = test.below(4) == 0 ? known : test.view(known);
    graphs[test.below(graphs.size())].push_back(test.save(view));
  };
  for (int action = 0; action < 60; ++action) {
    switch (test.below(8)) {
      case 0:
        live.push_back(test.make(1024 + test.below(24 * kKiB)));
        break;
      case 1:
        if (!live.empty())
          live.erase(live.begin() + static_cast<int>(test.below(live.size())));
        break;
      case 2: {
        if (live.empty()) break;
        Known& known = live[test.below(live.size())];
        if (known.valid() && test.below(2) == 0) test.write(known);
        break;
      }
      case 3: {  // A backward, in another order than said.
        AliasWorld::Graph& graph = graphs[test.below(graphs.size())];
        std::vector<autograd::PackedTensor*> order_of_use;
        for (const KnownSaved& saved : graph) {
          if (saved.packed && test.below(8) > 0) order_of_use.push_back(saved.packed.get());
        }
        const bool retain = test.below(2) == 0;
        const bool early = test.below(4) == 0;
        world.engine->begin_backward(order_of_use);
        AliasWorld::Graph mine = std::move(graph);
        graph.clear();
        for (KnownSaved& saved : mine) {
          if (early && test.below(4) == 0) break;
          std::optional<Known> back = test.use(saved);
          if (back && test.below(3) == 0) test.write(*back);
          if (back && test.below(3) == 0) live.push_back(*back);
          if (test.below(3) == 0) save();
          if (!retain) {
            test.drop(saved);
          } else if (saved.packed) {
            saved.packed->used();
          }
        }
        world.engine->end_backward();
        if (!retain) {
          for (KnownSaved& saved : mine) {
            if (saved.version != nullptr) test.drop(saved);
          }
          mine.clear();
        }
        for (KnownSaved& saved : mine) graph.push_back(std::move(saved));
        break;
      }
      case 4:
        if (test.below(3) == 0) test.settle();
        break;
      default:
        save();
    }
    while (live.size() > 5) live.erase(live.begin());
  }
  test.settle();
  for (AliasWorld::Graph& graph : graphs) {
    for (KnownSaved& saved : graph) test.use(saved);
    for (KnownSaved& saved : graph) test.drop(saved);
  }
  live.clear();
  graphs.clear();
  test.settle();
  outcome.figures = world.engine->figures();
  const EngineFigures& f = outcome.figures;
  outcome.wrong = test.wrong + world.checker->order().violations +
                  world.device.memory().figures().lent.total() +
                  world.engine->books().blocks + world.engine->books().waiting_bytes +
                  (f.d2h_bytes != f.h2d_bytes + f.revived_bytes + f.dropped_bytes) +
                  (test.saved_bytes != f.kept_bytes + f.offloaded_bytes + f.shared_bytes);
  return outcome;
}

TEST(RandomAliasesTest, ComeBackExactlyWithNoByteTwiceOnTheHost) {
  const std::vector<device::Order> orders = all_orders();
  EngineFigures sum;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    const Outcome outcome = run(seed, orders[seed % orders.size()]);
    ASSERT_EQ(outcome.wrong, 0U) << "seed " << seed;
    sum.kept_bytes += outcome.figures.kept_bytes;
    sum.offloaded_bytes += outcome.figures.offloaded_bytes;
    sum.shared_bytes += outcome.figures.shared_bytes;
    sum.h2d_bytes += outcome.figures.h2d_bytes;
    sum.revived_bytes += outcome.figures.revived_bytes;
    sum.refetched_bytes += outcome.figures.refetched_bytes;
  }
  // All of it happens.
  EXPECT_GT(sum.shared_bytes, sum.offloaded_bytes / 2);
  EXPECT_GT(sum.h2d_bytes, sum.offloaded_bytes / 20);
  EXPECT_GT(sum.revived_bytes, sum.offloaded_bytes / 20);
  EXPECT_GT(sum.refetched_bytes, sum.offloaded_bytes / 20);
  EXPECT_LT(sum.kept_bytes, sum.offloaded_bytes / 4);
}

}  // namespace
}  // namespace ebb::offload
