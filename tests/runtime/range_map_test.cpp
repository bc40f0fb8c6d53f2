#include "runtime/device/check/range_map.h"

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
  map.take(begin, end, [&](const std::string& value) { values.push_back(value); });
  return values;
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
