#include "allocator/region_map.h"

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fakes.h"

namespace ebb {
namespace {

using test::ManualSource;
using ::testing::ElementsAre;

class RegionMapTest : public ::testing::Test {
 protected:
  // At the high-water mark.
  RegionMap::Index lend_fresh(std::size_t bytes) {
    map_.prepare();
    return map_.lend(map_.append(bytes), bytes, {});
  }

  // All regions, lowest first.
  std::vector<RegionMap::Region> regions() const {
    std::vector<RegionMap::Region> all;
    for (auto i = map_.tail(); i != RegionMap::kNone; i = map_[i].before) {
      all.push_back(map_[i]);
    }
    std::reverse(all.begin(), all.end());
    return all;
  }
  std::vector<std::size_t> sizes() const {
    std::vector<std::size_t> all;
    for (const auto& region : regions()) all.push_back(region.bytes);
    return all;
  }

  // Regions are adjacent, and the holes are what lies between the lent ones.
  void check() const {
    std::vector<RegionMap::Hole> expected;
    std::size_t end = 0;
    bool in_hole = false;
    for (const auto& region : regions()) {
      ASSERT_EQ(region.offset, end);
      ASSERT_GT(region.bytes, 0U);
      end += region.bytes;
      if (!region.lent && in_hole) expected.back().bytes += region.bytes;
      if (!region.lent && !in_hole) expected.push_back({region.offset, region.bytes, 0});
      in_hole = !region.lent;
    }
    ASSERT_EQ(end, map_.end());
    ASSERT_EQ(map_.holes().size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(map_.holes()[i].bytes, expected[i].bytes);
      ASSERT_EQ(map_.holes()[i].offset, expected[i].offset);
      ASSERT_EQ(map_[map_.holes()[i].first].offset, expected[i].offset);
    }
  }

  std::array<ManualSource, 2> sources_;
  RegionMap map_;
};

TEST_F(RegionMapTest, IsEmptyAtFirst) {
  EXPECT_EQ(map_.end(), 0U);
  EXPECT_EQ(map_.tail(), RegionMap::kNone);
  EXPECT_TRUE(map_.holes().empty());
}

TEST_F(RegionMapTest, MergesNeighboursThatAreDone) {
  const auto a = lend_fresh(1);
  const auto b = lend_fresh(2);
  const auto c = lend_fresh(4);
  map_.give_back(a, {});
  map_.give_back(c, {});
  EXPECT_THAT(sizes(), ElementsAre(1, 2, 4));
  map_.give_back(b, {});
  EXPECT_THAT(sizes(), ElementsAre(7));
}

TEST_F(RegionMapTest, MergesNeighboursThatWaitForOneSource) {
  const auto a = lend_fresh(1);
  const auto b = lend_fresh(2);
  map_.give_back(a, Fence(sources_[0].at(5)));
  map_.give_back(b, Fence(sources_[0].at(7)));
  ASSERT_THAT(sizes(), ElementsAre(3));
  EXPECT_EQ(map_[map_.tail()].freed, 2U);
  map_[map_.tail()].last_use.for_each(
      [&](const Event& event) { EXPECT_EQ(event, sources_[0].at(7)); });
}

TEST_F(RegionMapTest, KeepsApartWhatWaitsForDifferentSources) {
  const auto a = lend_fresh(1);
  const auto b = lend_fresh(2);
  const auto c = lend_fresh(4);
  map_.give_back(a, Fence(sources_[0].at(1)));
  map_.give_back(b, Fence(sources_[1].at(1)));
  map_.give_back(c, {});
  EXPECT_THAT(sizes(), ElementsAre(1, 2, 4));
  ASSERT_EQ(map_.holes().size(), 1U);
  EXPECT_EQ(map_.holes()[0].bytes, 7U);
}

TEST_F(RegionMapTest, MergesTheRestWhenItIsDone) {
  const auto a = lend_fresh(1);
  const auto b = lend_fresh(2);
  const auto c = lend_fresh(4);
  map_.give_back(a, Fence(sources_[0].at(1)));
  map_.give_back(b, Fence(sources_[1].at(1)));
  map_.give_back(c, {});
  sources_[1].reach(1);
  map_.settle();
  EXPECT_THAT(sizes(), ElementsAre(1, 2, 4));  // The oldest is looked at first.
  sources_[0].reach(1);
  map_.settle();
  EXPECT_THAT(sizes(), ElementsAre(7));
  check();
}

TEST_F(RegionMapTest, LendsAcrossTheRegionsOfAHole) {
  const auto a = lend_fresh(1);
  const auto b = lend_fresh(2);
  const auto c = lend_fresh(4);
  lend_fresh(1);
  map_.give_back(a, Fence(sources_[0].at(1)));
  map_.give_back(b, Fence(sources_[1].at(1)));
  map_.give_back(c, Fence(sources_[0].at(2)));
  map_.prepare();
  map_.lend(map_.holes()[0].first, 5, {});
  EXPECT_THAT(sizes(), ElementsAre(5, 2, 1));
  check();
}

TEST_F(RegionMapTest, KeepsWhatALentRegionHadIfItComesBackUnused) {
  const auto a = lend_fresh(1);
  map_.give_back(a, Fence(sources_[0].at(1)));
  map_.prepare();
  const auto unused = map_.lend(map_.tail(), 1, map_[map_.tail()].last_use);
  map_.give_back(unused, {});
  EXPECT_FALSE(map_[map_.tail()].last_use.done());
}

TEST_F(RegionMapTest, StaysConsistentUnderRandomUse) {
  std::mt19937 random(1);
  const auto below = [&](std::size_t n) { return random() % n; };
  std::vector<RegionMap::Index> lent;
  for (int i = 0; i < 3000; ++i) {
    map_.prepare();
    const std::size_t kind = below(10);
    if (kind == 0) {
      for (ManualSource& source : sources_) source.reach(static_cast<std::uint64_t>(i));
      map_.settle();
    } else if (kind < 6 || lent.empty()) {
      // From the start of a random region of a random hole on.
      if (map_.holes().empty() || below(8) == 0) map_.append(1 + below(64));
      const auto hole = map_.holes()[below(map_.holes().size())];
      auto first = hole.first;
      std::size_t room = hole.bytes;
      while (below(2) == 0 && room > map_[first].bytes) {
        room -= map_[first].bytes;
        first = map_[first].after;
      }
      lent.push_back(map_.lend(first, 1 + below(room), {}));
      ASSERT_TRUE(map_[lent.back()].lent);
    } else {
      const std::size_t which = below(lent.size());
      Fence fence;
      for (ManualSource& source : sources_) {
        if (below(2) == 0) fence.add(source.at(static_cast<std::uint64_t>(i)));
      }
      map_.give_back(lent[which], fence);
      lent.erase(lent.begin() + static_cast<std::ptrdiff_t>(which));
    }
    ASSERT_NO_FATAL_FAILURE(check()) << "after change " << i;
  }
}

}  // namespace
}  // namespace ebb
