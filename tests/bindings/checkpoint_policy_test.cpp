#include "bindings/config/checkpoint_policy.h"

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace ebb::config {
namespace {

using test::refuses;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Pair = std::pair<std::int64_t, std::int64_t>;

std::vector<Pair> segments(const char* policy, std::int64_t layers) {
  std::vector<Pair> pairs;
  for (const nn::CheckpointSegment& segment : CheckpointPolicy(policy).segments(layers)) {
    pairs.emplace_back(segment.first, segment.last);
  }
  return pairs;
}

TEST(CheckpointPolicyTest, NoneRecomputesNothing) {
  EXPECT_THAT(segments("none", 12), IsEmpty());
  EXPECT_EQ(CheckpointPolicy().kind(), CheckpointPolicy::Kind::kNone);
}

TEST(CheckpointPolicyTest, EveryTakesTheLastShorterSegmentToo) {
  EXPECT_THAT(segments("every:1", 3), ElementsAre(Pair(0, 0), Pair(1, 1), Pair(2, 2)));
  EXPECT_THAT(segments("every:3", 8), ElementsAre(Pair(0, 2), Pair(3, 5), Pair(6, 7)));
  EXPECT_THAT(segments("every:8", 8), ElementsAre(Pair(0, 7)));
}

TEST(CheckpointPolicyTest, EveryAboveTheLayersIsOneSegment) {
  EXPECT_THAT(segments("every:50", 12), ElementsAre(Pair(0, 11)));
  EXPECT_THAT(segments("every:2", 1), ElementsAre(Pair(0, 0)));
}

TEST(CheckpointPolicyTest, SqrtRoundsUp) {
  EXPECT_THAT(segments("sqrt", 1), ElementsAre(Pair(0, 0)));
  EXPECT_THAT(segments("sqrt", 9), ElementsAre(Pair(0, 2), Pair(3, 5), Pair(6, 8)));
  EXPECT_THAT(segments("sqrt", 10), ElementsAre(Pair(0, 3), Pair(4, 7), Pair(8, 9)));
}

TEST(CheckpointPolicyTest, LayersAreSegmentsOfTheirOwnInAscendingOrder) {
  EXPECT_THAT(segments("layers:5,1,10", 12),
              ElementsAre(Pair(1, 1), Pair(5, 5), Pair(10, 10)));
  EXPECT_THAT(segments("layers:0,1", 2), ElementsAre(Pair(0, 0), Pair(1, 1)));
}

TEST(CheckpointPolicyTest, NamesALayerThatTheModelDoesNotHave) {
  EXPECT_THAT([] { segments("layers:3,12", 12); },
              refuses("no layer 12; its 12 layers are 0 to 11"));
}

TEST(CheckpointPolicyTest, SaysWhatIsWrongWithAPolicy) {
  for (const char* text : {"every:0", "every:-1", "every:x", "every:"}) {
    EXPECT_THAT([&] { CheckpointPolicy{text}; }, refuses("every:K")) << text;
  }
  for (const char* text : {"layers:", "layers:1,", "layers:-1", "layers:a"}) {
    EXPECT_THAT([&] { CheckpointPolicy{text}; }, refuses("layers:LIST")) << text;
  }
  EXPECT_THAT([] { CheckpointPolicy{"layers:2,0,2"}; }, refuses("layer 2 is there twice"));
  for (const char* text : {"", "plan", "all", "None"}) {
    EXPECT_THAT([&] { CheckpointPolicy{text}; },
                refuses("this release has: none, every:K, sqrt, layers:LIST"));
  }
}

}  // namespace
}  // namespace ebb::config
