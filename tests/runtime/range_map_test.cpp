#include "runtime/device/check/range_map.h"

#include <array>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebb::device {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> take(RangeMap<std::string>& map, std::uintptr_t begin,
                              std::uintptr_t end) {
  std::vector<std::string> values;
  map.take(begin, end, [&](std::uintptr_t, std::uintptr_t, const std::string& value) {
    values.push_back(value);
  });
  return values;
}

TEST(RangeMapTest, SaysWhichPartOfTheRangeHadTheValue) {
  RangeMap<int> map;
  map.set(10, 20, 1);
  map.set(30, 40, 2);
  std::vector<std::array<std::uintptr_t, 2>> parts;
  map.take(15, 35, [&](std::uintptr_t from, std::uintptr_t to, int) {
    parts.push_back({from, to});
  });
  EXPECT_THAT(parts, ElementsAre(std::array<std::uintptr_t, 2>{15, 20},
                                 std::array<std::uintptr_t, 2>{30, 35}));
  EXPECT_FALSE(map.empty());
}

TEST(RangeMapTest, HandsOutEachValueThatIsSomewhereInTheRange) {
  RangeMap<std::string> map;
  map.set(30, 40, "c");
  map.set(10, 20, "a");
  map.set(20, 30, "b");
  EXPECT_THAT(take(map, 15, 31), ElementsAre("a", "b", "c"));
}

TEST(RangeMapTest, LeavesWhatLiesOutsideOnBothSides) {
  RangeMap<std::string> map;
  map.set(10, 40, "a");
  EXPECT_THAT(take(map, 20, 30), ElementsAre("a"));
  EXPECT_THAT(take(map, 20, 30), IsEmpty());
  EXPECT_THAT(take(map, 19, 20), ElementsAre("a"));
  EXPECT_THAT(take(map, 30, 31), ElementsAre("a"));
  EXPECT_THAT(take(map, 0, 100), ElementsAre("a", "a"));
  EXPECT_THAT(take(map, 0, 100), IsEmpty());
}

TEST(RangeMapTest, RangesThatOnlyTouchDoNotOverlap) {
  RangeMap<std::string> map;
  map.set(10, 20, "a");
  EXPECT_THAT(take(map, 0, 10), IsEmpty());
  EXPECT_THAT(take(map, 20, 30), IsEmpty());
  EXPECT_THAT(take(map, 10, 20), ElementsAre("a"));
}

TEST(RangeMapTest, ANewValueReplacesTheOldInItsRangeOnly) {
  RangeMap<std::string> map;
  map.set(10, 40, "old");
  map.set(20, 30, "new");
  EXPECT_THAT(take(map, 0, 100), ElementsAre("old", "new", "old"));
}

}  // namespace
}  // namespace ebb::device
