// The learning rate over a run.

#pragma once

#include <cstdint>

namespace ebb::train {

// Linear warm-up, then a half cosine (Loshchilov and Hutter, "SGDR", arXiv 1608.03983,
// equation 5, without restarts) down to a tenth of the peak.
struct Schedule {
  double peak = 6e-4;
  std::int64_t steps = 1;
  std::int64_t warm_up = 0;  // Of these steps.
  double floor_ratio = 0.1;  // The last step's rate over the peak.

  // A tenth of the steps, at most 100, for the warm-up.
  static Schedule over(std::int64_t steps, double peak);

  // The rate of step `step`, counted from 0. The first is not 0, the last of the warm-up is
  // the peak, the last of all is the floor.
  double rate(std::int64_t step) const;
};

}  // namespace ebb::train
