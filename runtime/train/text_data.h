// A text to train on, and the batches drawn from it.
//
// The last tenth of the text is for validation. Which piece of the rest a sample holds is a
// function of (seed, step, global index of the sample) alone, through Philox: the same on
// any number of ranks, and after a resume.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ebb::train {

// What a batch holds: tokens, and for each the one that follows it. Row-major [batch, seq].
struct BatchView {
  std::span<std::int32_t> tokens;
  std::span<std::int32_t> targets;
};

// Immutable once made: any thread may read it.
class TextData {
 public:
  // The text of the file at `path` as bytes, for sequences of `seq` tokens and a vocabulary
  // of `vocabulary`. Throws Error{kInvalidArgument}, naming the path, for what cannot be
  // read, is empty, is too short for one sequence, or holds a byte outside of the
  // vocabulary.
  static TextData load(const std::string& path, std::int64_t seq, std::int64_t vocabulary);
  // The same of a text in memory; errors call it `name`.
  TextData(const std::string& name, absl::string_view text, std::int64_t seq,
           std::int64_t vocabulary);

  // Fills `batch` with the samples `first_sample`, `first_sample` + 1, ... of `step`.
  void training_batch(std::uint64_t seed, std::uint32_t step, std::uint64_t first_sample,
                      const BatchView& batch) const;

  // Fills `batch` with the `index`-th of `count` batches that are spread evenly over the
  // validation text; false, and nothing is filled, if that is too short for one sequence.
  bool validation_batch(std::int64_t index, std::int64_t count,
                        const BatchView& batch) const;

  std::span<const std::int32_t> training() const noexcept { return training_; }
  std::span<const std::int32_t> validation() const noexcept { return validation_; }
  std::int64_t seq() const noexcept { return seq_; }

 private:
  std::int64_t seq_;
  std::vector<std::int32_t> tokens_;
  std::span<const std::int32_t> training_;    // Of tokens_.
  std::span<const std::int32_t> validation_;  // Likewise.
};

}  // namespace ebb::train
