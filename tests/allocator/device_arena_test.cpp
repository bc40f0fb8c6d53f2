#include "allocator/device_arena.h"

#include <array>
#include <deque>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "tests/support/fakes.h"

namespace ebb {
namespace {

using test::ManualOrder;
using test::ManualSource;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr std::size_t kGranule = DeviceArena::kGranularityBytes;
constexpr std::uintptr_t kBase = 0x10000;
constexpr StreamId kCompute{0};
constexpr StreamId kCopy{1};

// Requests and addresses in granules.
class DeviceArenaTest : public ::testing::Test {
 protected:
  DeviceArenaTest() {
    order_.wait(kCompute, compute_.at(~std::uint64_t{0}));  // A stream is after itself.
    order_.wait(kCopy, copy_.at(~std::uint64_t{0}));
  }

  std::uintptr_t allocate(std::size_t granules, StreamId stream = kCompute) {
    const auto grant = arena_.allocate(granules * kGranule, stream);
    if (!grant) {
      ADD_FAILURE() << "no room for " << granules;
      return 0;
    }
    waits_.clear();
    grant->wait_for.for_each([&](const Event& event) { waits_.push_back(event); });
    return (grant->address - kBase) / kGranule;
  }
  void free(std::uintptr_t granule, const Event& event) { free(granule, Fence(event)); }
  void free(std::uintptr_t granule, const Fence& fence) {
    arena_.free(kBase + granule * kGranule, fence);
  }
  std::size_t reserved() const { return arena_.stats().reserved_bytes / kGranule; }

  ManualSource compute_;
  ManualSource copy_;
  ManualSource disk_;
  ManualOrder order_;
  DeviceArena arena_{order_, kBase, 100 * kGranule};
  std::vector<Event> waits_;  // Of the last allocate().
};

TEST_F(DeviceArenaTest, HandsOutFreshAddressesWithoutWaiting) {
  EXPECT_EQ(allocate(3), 0U);
  EXPECT_EQ(allocate(2), 3U);
  EXPECT_THAT(waits_, IsEmpty());
  EXPECT_EQ(reserved(), 5U);
}

TEST_F(DeviceArenaTest, RoundsUpToTheGranuleAndTakesOneForNothing) {
  const auto a = arena_.allocate(kGranule + 1, kCompute);
  const auto b = arena_.allocate(0, kCompute);
  const auto c = arena_.allocate(1, kCompute);
  EXPECT_EQ(b->address - a->address, 2 * kGranule);
  EXPECT_EQ(c->address - b->address, kGranule);
  EXPECT_EQ(arena_.stats().lent_bytes, 4 * kGranule);
}

TEST_F(DeviceArenaTest, RefusesABaseThatIsNotAligned) {
  EXPECT_THROW(DeviceArena(order_, 100, kGranule), Error);
}

TEST_F(DeviceArenaTest, CountsWhatIsLent) {
  const auto a = allocate(3);
  allocate(2);
  free(a, Event());
  const DeviceArena::Stats stats = arena_.stats();
  EXPECT_EQ(stats.limit_bytes, 100 * kGranule);
  EXPECT_EQ(stats.lent_bytes, 2 * kGranule);
  EXPECT_EQ(stats.peak_lent_bytes, 5 * kGranule);
  EXPECT_EQ(stats.reserved_bytes, 5 * kGranule);
}

TEST_F(DeviceArenaTest, UsesAgainAtOnceWhatIsFreeInTheStreamsOwnOrder) {
  const auto a = allocate(4);
  allocate(1);
  free(a, compute_.at(1));
  EXPECT_EQ(allocate(4), a);
  EXPECT_THAT(waits_, IsEmpty());
}

TEST_F(DeviceArenaTest, UsesAgainWhatIsDoneWhateverTheOrder) {
  const auto a = allocate(4);
  allocate(1);
  free(a, disk_.at(1));
  disk_.reach(1);
  EXPECT_EQ(allocate(4), a);
  EXPECT_THAT(waits_, IsEmpty());
}

TEST_F(DeviceArenaTest, PrefersFreshAddressesToAWait) {
  const auto a = allocate(4);
  allocate(1);
  free(a, copy_.at(1));
  EXPECT_EQ(allocate(4), 5U);
  EXPECT_THAT(waits_, IsEmpty());
  order_.wait(kCompute, copy_.at(1));
  EXPECT_EQ(allocate(4), a);
}

TEST_F(DeviceArenaTest, NeedsEveryEventOfAFenceInOrder) {
  const auto a = allocate(4);
  allocate(1);
  Fence fence(compute_.at(1));
  fence.add(copy_.at(1));
  free(a, fence);
  EXPECT_NE(allocate(4), a);
}

TEST_F(DeviceArenaTest, TakesTheLowestHoleThatFits) {
  std::vector<std::uintptr_t> holes;
  for (const std::size_t granules : {6U, 4U, 9U, 4U, 2U}) {
    holes.push_back(allocate(granules));
    allocate(1);
  }
  for (const std::uintptr_t hole : holes) free(hole, compute_.at(1));
  EXPECT_EQ(allocate(7), holes[2]);
  EXPECT_EQ(allocate(3), holes[0]);
  EXPECT_EQ(allocate(4), holes[1]);
  EXPECT_EQ(allocate(3), holes[0] + 3);
  EXPECT_EQ(allocate(1), holes[2] + 7);
}

TEST_F(DeviceArenaTest, SpansNeighboursWithDifferentFences) {
  order_.wait(kCompute, copy_.at(9));
  const auto a = allocate(2);
  const auto b = allocate(2);
  const auto c = allocate(2);
  allocate(1);
  free(a, compute_.at(1));
  free(b, copy_.at(1));
  free(c, Event());
  EXPECT_EQ(allocate(5), a);
  EXPECT_THAT(waits_, IsEmpty());
  EXPECT_EQ(allocate(1), c + 1);
}

TEST_F(DeviceArenaTest, DoesNotSpanWhatIsNotInOrder) {
  const auto a = allocate(2);
  const auto b = allocate(2);
  const auto c = allocate(2);
  allocate(1);
  free(a, compute_.at(1));
  free(b, copy_.at(1));
  free(c, compute_.at(1));
  EXPECT_EQ(allocate(3), 7U);
  EXPECT_EQ(allocate(1), a);
  EXPECT_EQ(allocate(2), c);  // The hole is free on both sides of b.
}

TEST_F(DeviceArenaTest, ExtendsWhatIsFreeInOrderAtTheHighWaterMark) {
  allocate(1);
  const auto b = allocate(2);
  const auto c = allocate(2);
  free(b, copy_.at(1));
  free(c, compute_.at(1));
  EXPECT_EQ(allocate(5), c);
  EXPECT_EQ(reserved(), 8U);
  EXPECT_THAT(waits_, IsEmpty());
}

TEST_F(DeviceArenaTest, LetsTheStreamWaitOnlyForWhatItIsNotAfter) {
  Fence fence(compute_.at(1));
  fence.add(copy_.at(2));
  fence.add(disk_.at(3));
  disk_.reach(3);
  const auto a = allocate(60);
  allocate(30);
  free(a, fence);
  EXPECT_EQ(allocate(50), a);
  EXPECT_THAT(waits_, ElementsAre(copy_.at(2)));
}

TEST_F(DeviceArenaTest, WaitsForAllThatItSpans) {
  const auto a = allocate(50);
  const auto b = allocate(50);
  free(a, copy_.at(4));
  free(b, disk_.at(2));
  EXPECT_EQ(allocate(100), a);
  EXPECT_THAT(waits_, UnorderedElementsAre(copy_.at(4), disk_.at(2)));
}

TEST_F(DeviceArenaTest, WaitsForWhatIsAtTheMarkWhenTheRestIsFresh) {
  allocate(40);
  const auto b = allocate(40);
  free(b, copy_.at(1));
  EXPECT_EQ(allocate(60), b);
  EXPECT_EQ(reserved(), 100U);
  EXPECT_THAT(waits_, ElementsAre(copy_.at(1)));
}

TEST_F(DeviceArenaTest, WaitsForAsFewEventsAsItCan) {
  const auto a = allocate(20);
  allocate(20);
  const auto c = allocate(20);
  allocate(40);
  Fence both(copy_.at(1));
  both.add(disk_.at(1));
  free(a, both);
  free(c, copy_.at(2));
  EXPECT_EQ(allocate(20), c);
}

TEST_F(DeviceArenaTest, ThenTakesAsFewBytesAsItCanFromThoseInUse) {
  const auto a = allocate(20);
  allocate(20);
  const auto c = allocate(10);
  const auto d = allocate(10);
  allocate(40);
  free(a, copy_.at(1));
  free(c, copy_.at(2));
  free(d, compute_.at(1));
  EXPECT_EQ(allocate(20), c);
  EXPECT_THAT(waits_, ElementsAre(copy_.at(2)));
}

TEST_F(DeviceArenaTest, ThenTakesWhatWasFreedFirst) {
  const auto a = allocate(20);
  allocate(20);
  const auto c = allocate(20);
  allocate(40);
  free(c, copy_.at(1));
  free(a, copy_.at(2));
  EXPECT_EQ(allocate(20), c);
}

TEST_F(DeviceArenaTest, HasNothingIfItDoesNotFitWhateverIsWaitedFor) {
  const auto a = allocate(40);
  allocate(20);
  const auto c = allocate(40);
  free(a, copy_.at(1));
  free(c, copy_.at(1));
  EXPECT_FALSE(arena_.allocate(41 * kGranule, kCompute));
  EXPECT_FALSE(arena_.allocate(101 * kGranule, kCompute));
  EXPECT_FALSE(arena_.allocate(std::numeric_limits<std::size_t>::max(), kCompute));
  EXPECT_EQ(allocate(40), a);
}

TEST_F(DeviceArenaTest, KeepsToALimitThatIsNoMultipleOfTheGranule) {
  DeviceArena arena(order_, kBase, 2 * kGranule + 100);
  EXPECT_FALSE(arena.allocate(2 * kGranule + 1, kCompute));
  EXPECT_TRUE(arena.allocate(2 * kGranule, kCompute));
  EXPECT_FALSE(arena.allocate(1, kCompute));
}

TEST_F(DeviceArenaTest, RemembersEarlierUsersOfMemoryThatComesBackUnused) {
  const auto a = allocate(4);
  allocate(1);
  free(a, compute_.at(1));
  EXPECT_EQ(allocate(4), a);  // compute is after its own use; copy is not.
  free(a, Event());
  EXPECT_NE(allocate(4, kCopy), a);
}

TEST_F(DeviceArenaTest, IgnoresAnAddressThatIsNotLent) {
  const auto a = allocate(4);
  free(a, Event());
  free(a, Event());
  free(77, Event());
  EXPECT_EQ(arena_.stats().lent_bytes, 0U);
}

// A run of random use. Every grant is checked against the last users of its bytes.
struct RandomRun {
  struct Step {
    std::uintptr_t address;
    std::vector<Event> waits;
  };

  RandomRun(unsigned seed, std::size_t limit, std::size_t most_lent)
      : arena(order, 0, limit) {
    std::mt19937 random(seed);
    const auto below = [&](std::size_t n) { return random() % n; };
    std::deque<std::pair<std::uintptr_t, std::size_t>> lent;
    for (int i = 0; i < 2000; ++i) {
      const StreamId stream{static_cast<std::uint32_t>(below(3))};
      const std::size_t bytes = kGranule * (1 + below(30));
      const std::size_t kind = below(16);
      const auto fits = [&] { return arena.stats().lent_bytes + bytes <= most_lent; };
      if (kind == 0) {
        sources[below(3)].reach(tickets);
      } else if (kind == 1) {
        order.wait(stream, sources[below(3)].at(tickets));
      } else if (kind < 9 && fits()) {
        if (take(bytes, stream)) lent.emplace_back(steps.back().address, bytes);
      } else if (!lent.empty()) {
        const std::size_t which = below(4) == 0 ? below(lent.size()) : lent.size() - 1;
        give(lent[which].first, lent[which].second, below(8));
        lent.erase(lent.begin() + static_cast<std::ptrdiff_t>(which));
      }
    }
  }

  bool take(std::size_t bytes, StreamId stream) {
    const auto grant = arena.allocate(bytes, stream);
    steps.push_back({grant ? grant->address : ~std::uintptr_t{0}, {}});
    if (!grant) return false;
    grant->wait_for.for_each([&](const Event& event) {
      EXPECT_FALSE(event.done() || order.ordered_after(stream, event));
      steps.back().waits.push_back(event);
    });
    order.wait(stream, grant->wait_for);
    for (std::size_t at = 0; at < bytes; at += kGranule) {
      users[grant->address + at].for_each([&](const Event& event) {
        EXPECT_TRUE(event.done() || order.ordered_after(stream, event));
      });
    }
    return true;
  }

  // The events are a subset of three; none of them: the memory was not used.
  void give(std::uintptr_t address, std::size_t bytes, std::size_t subset) {
    Fence fence;
    ++tickets;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if ((subset >> i & 1) != 0) fence.add(sources[i].at(tickets));
    }
    if (!fence.empty()) {
      for (std::size_t at = 0; at < bytes; at += kGranule) users[address + at] = fence;
    }
    arena.free(address, fence);
  }

  std::array<ManualSource, 3> sources;
  ManualOrder order;
  DeviceArena arena;
  std::uint64_t tickets = 0;
  std::vector<Step> steps;
  std::map<std::uintptr_t, Fence> users;  // By granule.
};

TEST(DeviceArena, NeverHandsOutBytesThatAreInUse) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    RandomRun(seed, 500 * kGranule, 400 * kGranule);
  }
}

TEST(DeviceArena, GivesTheSameGrantsWhenItsLimitIsWhatTheFirstRunReserved) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const std::size_t limit = (300 + 50 * seed) * kGranule;
    const RandomRun first(seed, limit, 400 * kGranule);
    const std::size_t high = first.arena.stats().reserved_bytes;
    const RandomRun second(seed, high, 400 * kGranule);
    ASSERT_EQ(first.steps.size(), second.steps.size());
    for (std::size_t i = 0; i < first.steps.size(); ++i) {
      ASSERT_EQ(first.steps[i].address, second.steps[i].address) << "seed " << seed;
      ASSERT_EQ(first.steps[i].waits.size(), second.steps[i].waits.size());
    }
    EXPECT_EQ(second.arena.stats().reserved_bytes, high);
  }
}

}  // namespace
}  // namespace ebb
