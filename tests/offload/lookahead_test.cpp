#include "offload/engine/lookahead.h"

#include <algorithm>
#include <array>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace ebb::offload {
namespace {

// How many blocks are under way after use `now`, if all before it were asked for in order
// and `submitted` were under way.
std::size_t submitted_at(const Lookahead& lookahead, std::ptrdiff_t now,
                         std::size_t submitted, std::size_t count) {
  submitted = std::max(submitted, static_cast<std::size_t>(now + 1));
  while (submitted < count && lookahead.wants(now, submitted)) ++submitted;
  return submitted;
}

TEST(LookaheadTest, WithoutTimesEverythingMayBeFetchedAtOnce) {
  EXPECT_FALSE(Lookahead().learned());
  EXPECT_TRUE(Lookahead().wants(-1, 1000));
}

TEST(LookaheadTest, FetchesOneBlockMoreThanHidesTheLink) {
  // A copy takes half of the time between two uses: the next block has to be under way by
  // the next use, and one more is submitted.
  const std::vector<double> gaps(6, 1.0);
  const std::vector<double> copies(6, 0.5);
  const Lookahead lookahead(gaps, copies);
  EXPECT_EQ(submitted_at(lookahead, -1, 0, 6), 2U);
  EXPECT_EQ(submitted_at(lookahead, 0, 2, 6), 3U);
  EXPECT_EQ(submitted_at(lookahead, 3, 5, 6), 6U);
}

TEST(LookaheadTest, FetchesEarlyWhatALongCopyOrABurstOfUsesWillNeed) {
  // Three uses at one time, three copies of 1 each: the first has to start 3 before.
  const std::vector<double> gaps{1, 1, 1, 1, 0, 0};
  const std::vector<double> copies{0.1, 0.1, 0.1, 1, 1, 1};
  const Lookahead lookahead(gaps, copies);
  // At use 0 (time 1) the next chance is at 2; the burst at 4 has to be under way by 1,
  // 2, 3.
  EXPECT_EQ(submitted_at(lookahead, 0, 1, 6), 5U);
}

TEST(LookaheadTest, UsesAtTheSameTimeAreOneChance) {
  const std::vector<double> gaps{1, 0, 0, 5, 0.1};
  const std::vector<double> copies{0.1, 0.1, 0.1, 0.1, 4};
  const Lookahead lookahead(gaps, copies);
  // At the first of three uses at time 1 the next chance that counts is at 6; block 4 would
  // have to start at 2.1.
  EXPECT_TRUE(lookahead.wants(0, 4));
  EXPECT_TRUE(lookahead.wants(2, 4));
}

// If every block is submitted at the use that the lookahead says, and copies run one after
// the other, none is late that could have been in time.
TEST(LookaheadTest, NothingIsLateThatNeedNotBe) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const std::size_t n = 1 + random() % 8;
    std::vector<double> gaps(n);
    std::vector<double> copies(n);
    for (double& gap : gaps) gap = static_cast<double>(random() % 4);
    for (double& copy : copies) copy = static_cast<double>(random() % 4);
    const Lookahead lookahead(gaps, copies);

    // Times of compute and link, with everything submitted at once, and as the lookahead
    // says.
    const auto finish = [&](bool all_at_once) {
      std::vector<double> done(n, std::numeric_limits<double>::infinity());
      double link = 0;
      double time = 0;
      std::size_t submitted = 0;
      for (std::ptrdiff_t now = -1; now < static_cast<std::ptrdiff_t>(n); ++now) {
        if (now >= 0) {
          const auto use = static_cast<std::size_t>(now);
          time = std::max(time + gaps[use], done[use]);
        }
        const std::size_t until =
            all_at_once ? n : submitted_at(lookahead, now, submitted, n);
        for (; submitted < until; ++submitted) {
          link = std::max(link, time) + copies[submitted];
          done[submitted] = link;
        }
      }
      return time;
    };
    double compute = 0;
    for (const double gap : gaps) compute += gap;
    if (finish(true) > compute) continue;  // The link is too slow to be hidden.
    EXPECT_EQ(finish(false), compute) << "round " << round;
  }
}

}  // namespace
}  // namespace ebb::offload
