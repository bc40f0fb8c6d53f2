#include "bindings/config/parse.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace ebb::config {
namespace {

using test::refuses;

TEST(ParseTest, ReadsWholeNumbersWithinTheirBounds) {
  EXPECT_EQ(parse_integer("--steps", "1", 1, 10), 1);
  EXPECT_EQ(parse_integer("--steps", "10", 1, 10), 10);
  for (const char* text : {"0", "11", "-3", "", "x", "3x", "1.5", "nan", "1e3",
                           "99999999999999999999", "--batch"}) {
    EXPECT_THAT(
        [&] { parse_integer("--steps", text, 1, 10); },
        refuses(absl::StrCat("--steps: '", text, "' is not a whole number from 1 to 10")));
  }
}

TEST(ParseTest, ReadsEverySeed) {
  EXPECT_EQ(parse_seed("--seed", "0"), 0U);
  EXPECT_EQ(parse_seed("--seed", "18446744073709551615"),
            std::numeric_limits<std::uint64_t>::max());
  for (const char* text : {"", "-1", "x", "18446744073709551616"}) {
    EXPECT_THAT([&] { parse_seed("--seed", text); }, refuses("--seed: '"));
  }
}

TEST(ParseTest, ReadsRealNumbersThatAreFiniteAndWithinTheirBounds) {
  EXPECT_EQ(parse_real("--dropout", "0", 0, true, 0.5), 0);
  EXPECT_EQ(parse_real("--dropout", "0.5", 0, true, 0.5), 0.5);
  EXPECT_EQ(parse_real("--lr", "6e-4", 0, false, 1), 6e-4);
  for (const char* text : {"", "nan", "inf", "-0.1", "0.6", "1e999", "a"}) {
    EXPECT_THAT([&] { parse_real("--dropout", text, 0, true, 0.5); },
                refuses("is not a number from 0 to 0.5"));
  }
  EXPECT_THAT([] { parse_real("--lr", "0", 0, false, 1); },
              refuses("is not a number above 0 and at most 1"));
}

TEST(ParseTest, ListsTheChoices) {
  EXPECT_THAT(
      [] {
        refuse_choice("--offload", "plan", {"none", "inputs"});
      },
      refuses("--offload: 'plan' is unknown; this release has: none, inputs"));
}

}  // namespace
}  // namespace ebb::config
