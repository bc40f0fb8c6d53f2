// How far ahead of its use a block has to be fetched.
//
// Copies go one after the other, so block i has to be under way by
//   s(i) = min(use(i), s(i+1)) - copy(i),
// the backward recursion of a single machine with deadlines. Chances to submit come only at
// uses: at one of them, what has to be under way before the next one is submitted, and one
// block more.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ebb::offload {

class Lookahead {
 public:
  // Without times: everything may be fetched at once.
  Lookahead() = default;
  // `gaps[i]`: seconds of compute between use i - 1 (the beginning of backward, for the
  // first) and use i. `copies[i]`: how long block i's copy takes, 0 if it needs none.
  Lookahead(std::span<const double> gaps, std::span<const double> copies);

  // Whether block `next` should be submitted at use `now` (-1: at the beginning), if all
  // before it are there or submitted. Constant time.
  bool wants(std::ptrdiff_t now, std::size_t next) const noexcept;

  bool learned() const noexcept { return !latest_start_.empty(); }

 private:
  std::vector<double> latest_start_;
  std::vector<double> next_chance_;  // Of use i - 1: when the next later use is.
};

}  // namespace ebb::offload
