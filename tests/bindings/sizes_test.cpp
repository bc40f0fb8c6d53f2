#include "bindings/config/sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"

namespace ebb::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Property;
using ::testing::StartsWith;
using ::testing::Throws;

auto refuses(const std::string& why) {
  return Throws<Error>(
      AllOf(Property(&Error::code, absl::StatusCode::kInvalidArgument),
            Property(&Error::what,
                     AllOf(StartsWith("--budget: "), HasSubstr(why), HasSubstr("24GiB")))));
}

TEST(SizesTest, ReadsBytesAndUnitsOf1024AndOf1000) {
  EXPECT_EQ(parse_size("", "1"), 1U);
  EXPECT_EQ(parse_size("", "17 B"), 17U);
  EXPECT_EQ(parse_size("", "3KiB"), 3U << 10);
  EXPECT_EQ(parse_size("", "512MiB"), 512U << 20);
  EXPECT_EQ(parse_size("", "24GiB"), std::size_t{24} << 30);
  EXPECT_EQ(parse_size("", "1.5 tib"), std::size_t{3} << 39);
  EXPECT_EQ(parse_size("", " 2kb "), 2000U);
  EXPECT_EQ(parse_size("", "2MB"), 2'000'000U);
  EXPECT_EQ(parse_size("", "2GB"), 2'000'000'000U);
  EXPECT_EQ(parse_size("", "2TB"), 2'000'000'000'000U);
}

TEST(SizesTest, KeepsEveryBitOfAWholeNumberOfBytes) {
  EXPECT_EQ(parse_size("", "9007199254740993"), 9007199254740993U);  // 2^53 + 1
  EXPECT_EQ(parse_size("", "1152921504606846976"), std::size_t{1} << 60);
}

TEST(SizesTest, SaysWhatIsWrongAndWhatWouldWork) {
  for (const auto& [text, why] :
       {std::pair{"", "is not a size"}, std::pair{"nan", "is not a size"},
        std::pair{"inf", "is not a size"}, std::pair{"GiB", "is not a size"},
        std::pair{".", "is not a size"}, std::pair{"1.2.3GiB", "is not a size"},
        std::pair{"0x10", "unknown unit 'x10'"}, std::pair{"1e400", "unknown unit 'e400'"},
        std::pair{"12QiB", "unknown unit 'qib'"}, std::pair{"-1", "is negative"},
        std::pair{"-2GiB", "is negative"}, std::pair{"0", "must be more than 0"},
        std::pair{"0GiB", "must be more than 0"}, std::pair{"1.5", "whole number of bytes"},
        std::pair{"2000000TiB", "more than 1 EiB"},
        std::pair{"99999999999999999999999999", "more than 1 EiB"}}) {
    EXPECT_THAT(([input = text] { parse_size("--budget", input); }), refuses(why)) << text;
  }
}

}  // namespace
}  // namespace ebb::config
