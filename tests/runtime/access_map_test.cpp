#include "runtime/device/check/access_map.h"

#include <map>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebb::device {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AccessMapTest : public ::testing::Test {
 protected:
  std::vector<std::string> read(AccessMap::Range range, Point who,
                                const Clock& clock = {}) {
    return access(range, who, clock, false);
  }
  std::vector<std::string> write(AccessMap::Range range, Point who,
                                 const Clock& clock = {}) {
    return access(range, who, clock, true);
  }

  AccessMap map_;

 private:
  std::vector<std::string> access(AccessMap::Range range, Point who, const Clock& clock,
                                  bool writes) {
    std::vector<std::string> found;
    const auto report = [&](const AccessMap::User& earlier, bool wrote,
                            AccessMap::Range where) {
      found.push_back(std::string(wrote ? "w" : "r") +
                      std::to_string(earlier.point.source) + "@" +
                      std::to_string(where.begin) + "-" + std::to_string(where.end));
    };
    const AccessMap::User user{who, "op", "stream"};
    if (writes) {
      map_.write(range, user, clock, report);
    } else {
      map_.read(range, user, clock, report);
    }
    return found;
  }
};

TEST_F(AccessMapTest, ReadersDoNotConflictAndWritersDo) {
  EXPECT_THAT(read({0, 10}, {1, 1}), IsEmpty());
  EXPECT_THAT(read({5, 15}, {2, 1}), IsEmpty());
  EXPECT_THAT(write({0, 20}, {3, 1}),
              ElementsAre("r1@0-5", "r1@5-10", "r2@5-10", "r2@10-15"));
  EXPECT_THAT(read({19, 30}, {1, 2}), ElementsAre("w3@19-20"));
}

TEST_F(AccessMapTest, WhatIsOrderedDoesNotConflict) {
  write({0, 10}, {1, 5});
  Clock after;
  after.raise({1, 5});
  EXPECT_THAT(read({0, 10}, {2, 1}, after), IsEmpty());
  Clock before;
  before.raise({1, 4});
  EXPECT_THAT(read({0, 10}, {2, 2}, before), ElementsAre("w1@0-10"));
  EXPECT_THAT(write({0, 10}, {1, 6}), ElementsAre("r2@0-10"));
}

TEST_F(AccessMapTest, OneStreamIsInOrder) {
  write({0, 10}, {1, 1});
  EXPECT_THAT(write({0, 10}, {1, 2}), IsEmpty());
  EXPECT_THAT(read({0, 10}, {1, 3}), IsEmpty());
}

TEST_F(AccessMapTest, EmptyRangesTouchNothing) {
  write({5, 5}, {1, 1});
  EXPECT_EQ(map_.segments(), 0U);
}

TEST_F(AccessMapTest, WritesMakeOneSegmentOfMany) {
  for (std::uintptr_t at = 0; at < 100; at += 10) write({at, at + 10}, {1, at + 1});
  EXPECT_EQ(map_.segments(), 10U);
  write({0, 100}, {1, 200});
  EXPECT_EQ(map_.segments(), 1U);
}

// Against a map of single bytes.
TEST_F(AccessMapTest, AgreesWithAByteByByteMap) {
  struct Byte {
    Source writer = 0;  // 0: none.
    std::vector<Source> readers;
  };
  std::map<std::uintptr_t, Byte> bytes;
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const std::uintptr_t begin = random() % 60;
    const std::uintptr_t end = begin + random() % 20;
    const Source who = 1 + random() % 4;
    const bool writes = random() % 2 == 0;
    bool conflict = false;
    for (std::uintptr_t at = begin; at < end; ++at) {
      Byte& byte = bytes[at];
      conflict = conflict || (byte.writer != 0 && byte.writer != who);
      if (writes) {
        for (const Source reader : byte.readers) conflict = conflict || reader != who;
        byte = {who, {}};
      } else {
        byte.readers.push_back(who);
      }
    }
    const Point here{who, static_cast<std::uint64_t>(i) + 1};
    const auto found = writes ? write({begin, end}, here) : read({begin, end}, here);
    EXPECT_EQ(!found.empty(), conflict) << i;
  }
}

}  // namespace
}  // namespace ebb::device
