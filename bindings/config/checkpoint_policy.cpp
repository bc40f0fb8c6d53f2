#include "bindings/config/checkpoint_policy.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

#include "allocator/error.h"
#include "bindings/config/parse.h"

namespace ebb::config {
namespace {

constexpr const char* kFlag = "--checkpoint";

}  // namespace

CheckpointPolicy::CheckpointPolicy(const std::string& text) : text_(text) {
  absl::string_view rest = text;
  if (text == "none") {
    kind_ = Kind::kNone;
  } else if (text == "sqrt") {
    kind_ = Kind::kSqrt;
  } else if (absl::StartsWith(text, "every:")) {
    rest.remove_prefix(sizeof("every:") - 1);
    kind_ = Kind::kEvery;
    every_ = parse_integer("--checkpoint every:K", rest, 1, kMostLayers);
  } else if (absl::StartsWith(text, "layers:")) {
    rest.remove_prefix(sizeof("layers:") - 1);
    kind_ = Kind::kLayers;
    for (const absl::string_view layer : absl::StrSplit(rest, ',')) {
      layers_.push_back(
          parse_integer("--checkpoint layers:LIST", layer, 0, kMostLayers - 1));
    }
    std::sort(layers_.begin(), layers_.end());
    const auto twice = std::adjacent_find(layers_.begin(), layers_.end());
    if (twice != layers_.end()) {
      throw Error(
          absl::StatusCode::kInvalidArgument,
          absl::StrCat("--checkpoint ", text, ": layer ", *twice, " is there twice"));
    }
  } else {
    refuse_choice(kFlag, text, {"none", "every:K", "sqrt", "layers:LIST"});
  }
}

std::vector<nn::CheckpointSegment> CheckpointPolicy::segments(std::int64_t layers) const {
  std::vector<nn::CheckpointSegment> result;
  std::int64_t every = every_;
  switch (kind_) {
    case Kind::kNone:
      return result;
    case Kind::kLayers:
      for (const std::int64_t layer : layers_) {
        if (layer >= layers) {
          throw Error(absl::StatusCode::kInvalidArgument,
                      absl::StrCat(kFlag, " ", text_, ": the model has no layer ", layer,
                                   "; its ", layers, " layers are 0 to ", layers - 1));
        }
        result.push_back({layer, layer});
      }
      return result;
    case Kind::kSqrt:
      every = 1;
      while (every * every < layers) ++every;
      break;
    case Kind::kEvery:
      break;
  }
  for (std::int64_t first = 0; first < layers; first += every) {
    result.push_back({first, std::min(first + every, layers) - 1});
  }
  return result;
}

}  // namespace ebb::config
