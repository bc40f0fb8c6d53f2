#include "bindings/cli/train/budget_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace ebb::cli {
namespace {

using test::fails_with;

std::size_t part(std::size_t bytes) {
  return static_cast<std::size_t>(0.97 * static_cast<double>(bytes));
}

TEST(BudgetSearchTest, FindsTheSmallestToHalfAPercent) {
  for (const std::size_t truth :
       {std::size_t{5000}, std::size_t{1} << 20, (std::size_t{37} << 30) + 13}) {
    int tries = 0;
    const std::size_t found = smallest_budget(0, 3 * truth, [&](std::size_t bytes) {
      ++tries;
      return bytes >= truth;
    });
    EXPECT_GE(found, truth);
    EXPECT_LE(found, truth + truth / 150 + 1024);
    EXPECT_LT(tries, 40);
  }
}

TEST(BudgetSearchTest, TriesNothingThatIsKnown) {
  smallest_budget(1000 * 512, 2000 * 512, [](std::size_t bytes) {
    EXPECT_GT(bytes, 1000U * 512);
    EXPECT_LT(bytes, 2000U * 512);
    return bytes >= 1500 * 512;
  });
}

// More room is not always better: here an island works far below the mainland.
TEST(BudgetSearchTest, GoesOnBelowAnIslandSoThatAThreePercentLessFails) {
  for (const std::size_t begin :
       {870'000U, 880'000U, 930'000U, 960'000U, 968'000U, 975'000U}) {
    const auto works = [begin](std::size_t bytes) {
      return bytes >= 1'000'000 || (bytes >= begin && bytes < 985'000);
    };
    const std::size_t found = smallest_budget(500'000, 1'400'000, works);
    EXPECT_TRUE(works(found)) << begin;
    EXPECT_FALSE(works(part(found))) << begin << ": " << found;
  }
}

TEST(BudgetSearchTest, TakesWhatIsEnoughWhereNothingLessWorks) {
  EXPECT_EQ(smallest_budget(0, 777'777, [](std::size_t) { return false; }), 777'777U);
}

TEST(BudgetSearchTest, NeedsARoomToSearchIn) {
  EXPECT_THAT([] { smallest_budget(5, 5, [](std::size_t) { return true; }); },
              fails_with(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace ebb::cli
