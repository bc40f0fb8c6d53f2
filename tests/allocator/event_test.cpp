#include "allocator/event.h"

#include <array>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fakes.h"

namespace ebb {
namespace {

using test::ManualSource;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

std::vector<Event> events(const Fence& fence) {
  std::vector<Event> all;
  fence.for_each([&](const Event& event) { all.push_back(event); });
  return all;
}

TEST(Event, IsDoneFromTheStartWithoutASource) {
  const Event event;
  EXPECT_TRUE(event.done());
  event.wait();
}

TEST(Event, IsDoneWhenItsSourceReachesItsTicket) {
  ManualSource source;
  const Event event = source.at(2);
  source.reach(1);
  EXPECT_FALSE(event.done());
  source.reach(2);
  EXPECT_TRUE(event.done());
}

TEST(Fence, IsDoneWhenEmpty) {
  const Fence fence;
  EXPECT_TRUE(fence.empty());
  EXPECT_TRUE(fence.done());
  fence.wait();
}

TEST(Fence, StaysEmptyWhenADoneEventIsAdded) { EXPECT_TRUE(Fence(Event()).empty()); }

TEST(Fence, IsDoneWhenAllOfItsEventsAre) {
  std::array<ManualSource, 6> sources;  // More than it keeps inline.
  Fence fence;
  for (const ManualSource& source : sources) fence.add(source.at(1));
  for (ManualSource& source : sources) {
    EXPECT_FALSE(fence.done());
    source.reach(1);
  }
  EXPECT_TRUE(fence.done());
}

TEST(Fence, KeepsTheLatestOfTheEventsOfOneSource) {
  const std::array<ManualSource, 6> sources;
  for (const ManualSource& source : sources) {
    Fence fence;
    for (const ManualSource& other : sources) fence.add(other.at(5));
    fence.add(source.at(7));
    fence.add(source.at(6));
    EXPECT_EQ(events(fence).size(), sources.size());
    for (const Event& event : events(fence)) {
      EXPECT_EQ(event.ticket(), event.source() == &source ? 7U : 5U);
    }
  }
}

TEST(Fence, TakesInAllEventsOfAnother) {
  const std::array<ManualSource, 3> sources;
  Fence fence(sources[0].at(1));
  fence.add(sources[1].at(4));
  Fence other(sources[1].at(3));
  other.add(sources[2].at(2));
  fence.add(other);
  EXPECT_THAT(events(fence),
              UnorderedElementsAre(sources[0].at(1), sources[1].at(4), sources[2].at(2)));
  Fence empty;
  empty.add(other);
  EXPECT_EQ(events(empty), events(other));
}

TEST(Fence, IsUnchangedWhenAddedToItself) {
  const ManualSource source;
  Fence fence(source.at(1));
  const Fence& same = fence;
  fence.add(same);
  EXPECT_THAT(events(fence), ElementsAre(source.at(1)));
}

TEST(Fence, WaitsForEachOfItsEvents) {
  for (std::size_t last = 0; last < 6; ++last) {
    std::array<ManualSource, 6> sources;
    Fence fence;
    for (ManualSource& source : sources) {
      fence.add(source.at(1));
      if (&source != &sources[last]) source.reach(1);
    }
    int value = 0;
    std::jthread device([&] {
      value = 1;  // A race with the read below, unless the last event is waited for.
      sources[last].reach(1);
    });
    fence.wait();
    EXPECT_EQ(value, 1);
  }
}

}  // namespace
}  // namespace ebb
