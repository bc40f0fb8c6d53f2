#include "runtime/nn/segments.h"

#include <string>

#include <gtest/gtest.h>

#include "allocator/error.h"

namespace ebb::nn {
namespace {

using Segments = std::vector<CheckpointSegment>;

TEST(SegmentsTest, MakesSegmentsOfTheLayersThatAreInNone) {
  const auto text = [](const std::vector<CheckpointSegment>& segments,
                       std::int64_t layers) {
    std::string all;
    for (const CheckpointSegment& s : with_others_as_needed(segments, layers)) {
      const bool always = s.recompute == autograd::Recompute::kAlways;
      all +=
          std::to_string(s.first) + "-" + std::to_string(s.last) + (always ? "! " : "? ");
    }
    return all;
  };
  EXPECT_EQ(text({}, 0), "");
  EXPECT_EQ(text({}, 1), "0-0? ");
  EXPECT_EQ(text({{0, 0}}, 1), "0-0! ");
  EXPECT_EQ(text({{1, 2}, {4, 4}}, 6), "0-0? 1-2! 3-3? 4-4! 5-5? ");
}

TEST(SegmentsTest, AreInOrderAndWithinTheModel) {
  EXPECT_NO_THROW(check_segments({{0, 1}, {2, 3}}, 4));
  EXPECT_NO_THROW(check_segments({}, 0));
  for (const Segments& segments :
       {Segments{{3, 4}}, Segments{{1, 0}}, Segments{{0, 2}, {2, 3}},
        Segments{{2, 3}, {0, 1}}, Segments{{-1, 0}}}) {
    EXPECT_THROW(check_segments(segments, 4), Error);
    EXPECT_THROW(with_others_as_needed(segments, 4), Error);
  }
}

}  // namespace
}  // namespace ebb::nn
