// How far a run is: a live bar on a terminal, plain lines elsewhere.

#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>

namespace ebb::cli {

// One thread at a time. Writes to `out` (stderr of a command), which outlives it.
class Progress {
 public:
  // On a terminal every step redraws one line; else about twenty lines are written.
  Progress(std::FILE* out, bool terminal, std::int64_t steps);
  ~Progress();  // Leaves the cursor on a line of its own.

  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `step` steps have ended; the loss of the last, if it has one.
  void update(std::int64_t step, std::optional<double> loss);

 private:
  void draw(std::int64_t step, std::optional<double> loss, double seconds);
  void print(std::int64_t step, std::optional<double> loss, double seconds);

  std::FILE* const out_;
  const bool terminal_;
  const std::int64_t steps_;
  const std::int64_t every_;  // Steps between lines.
  const std::chrono::steady_clock::time_point begin_;
  bool drawn_ = false;
};

}  // namespace ebb::cli
