#include "runtime/device/sim/region.h"

#include <array>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"

namespace ebb::device {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kPage = 4096;

char& at(const Region& region, std::size_t page) {
  return *reinterpret_cast<char*>(region.base() + page * kPage);
}

TEST(Region, MayBeLargerThanTheMachine) {
  const Region region(std::size_t{1} << 40, false);
  EXPECT_NE(region.base(), 0U);
  EXPECT_EQ(region.bytes(), std::size_t{1} << 40);
}

TEST(Region, SaysWhenItCannotBe) {
  EXPECT_THROW(Region(std::size_t{1} << 60, true), Error);
}

TEST(Region, NamesTheOpThatTouchesAnUndeclaredPage) {
  Region region(8 * kPage, true);
  const std::array<Access, 1> declared{Access{region.base() + kPage, 2 * kPage}};
  const absl::Status status =
      region.guarded("sneaky", declared, 8 * kPage, [&] { at(region, 5) = 1; });
  EXPECT_THAT(std::string(status.message()), HasSubstr("'sneaky'"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("(byte 20480 of"));
}

TEST(Region, SeesThePagesOfOtherThreads) {
  Region region(8 * kPage, true);
  EXPECT_FALSE(region
                   .guarded("sneaky", {}, 8 * kPage,
                            [&] { std::jthread other([&] { at(region, 7) = 1; }); })
                   .ok());
}

TEST(Region, LetsDeclaredPagesBeInOverlapAndInAnyOrder) {
  Region region(8 * kPage, true);
  const std::array<Access, 3> declared{Access{region.base() + 5 * kPage, kPage},
                                       Access{region.base() + kPage, 3 * kPage},
                                       Access{region.base() + 2 * kPage, 10}};
  EXPECT_TRUE(region
                  .guarded("op", declared, 8 * kPage,
                           [&] { at(region, 3) = at(region, 5) = at(region, 1) = 1; })
                  .ok());
  EXPECT_FALSE(region.guarded("op", declared, 8 * kPage, [&] { at(region, 4) = 1; }).ok());
}

TEST(Region, IsOpenAfterwardsAlsoWhenTheBodyThrows) {
  Region region(8 * kPage, true);
  EXPECT_THROW(
      (void)region.guarded("op", {}, 8 * kPage, [] { throw std::runtime_error("bang"); }),
      std::runtime_error);
  at(region, 6) = 1;
  EXPECT_EQ(at(region, 6), 1);
}

}  // namespace
}  // namespace ebb::device
