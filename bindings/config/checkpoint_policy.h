// Which transformer layers are recomputed, as `--checkpoint` says it.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/nn/gpt2.h"

namespace ebb::config {

// Of a model: with more, sizes in bytes would not fit 64 bits, whatever the machine.
inline constexpr std::int64_t kMostLayers = 10000;

// A value; not thread-safe.
class CheckpointPolicy {
 public:
  enum class Kind : std::uint8_t { kNone, kEvery, kSqrt, kLayers };

  CheckpointPolicy() = default;

  // "none", "every:K" (K >= 1), "sqrt" (K = ceil(sqrt(layers)): Chen et al., arXiv
  // 1604.06174), "layers:1,5,10" (0-based; each is a segment of its own). Throws
  // Error{kInvalidArgument} that says what would work.
  explicit CheckpointPolicy(const std::string& text);

  Kind kind() const noexcept { return kind_; }
  const std::string& text() const noexcept { return text_; }

  // The segments of a model of `layers` layers. K above `layers` makes one segment. Throws
  // Error{kInvalidArgument} for a layer that the model does not have.
  std::vector<nn::CheckpointSegment> segments(std::int64_t layers) const;

 private:
  Kind kind_ = Kind::kNone;
  std::string text_ = "none";
  std::int64_t every_ = 0;
  std::vector<std::int64_t> layers_;  // Ascending, no two alike.
};

}  // namespace ebb::config
