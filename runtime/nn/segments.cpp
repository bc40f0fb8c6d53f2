#include "runtime/nn/segments.h"

#include "allocator/error.h"

namespace ebb::nn {

void check_segments(const std::vector<CheckpointSegment>& segments, std::int64_t layers) {
  std::int64_t next = 0;
  for (const CheckpointSegment& segment : segments) {
    EBB_CHECK(
        segment.first >= next && segment.last >= segment.first && segment.last < layers,
        kInvalidArgument, "the checkpoint segment [", segment.first, ", ", segment.last,
        "] is empty, out of order, or outside of ", layers, " layers");
    next = segment.last + 1;
  }
}

std::vector<CheckpointSegment> with_others_as_needed(
    const std::vector<CheckpointSegment>& segments, std::int64_t layers) {
  check_segments(segments, layers);
  std::vector<CheckpointSegment> all;
  std::int64_t next = 0;
  const auto fill_up_to = [&](std::int64_t layer) {
    for (; next < layer; ++next) {
      all.push_back({next, next, autograd::Recompute::kAsNeeded});
    }
  };
  for (const CheckpointSegment& segment : segments) {
    fill_up_to(segment.first);
    all.push_back(segment);
    next = segment.last + 1;
  }
  fill_up_to(layers);
  return all;
}

}  // namespace ebb::nn
