#include "runtime/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ebb::train {

Schedule Schedule::over(std::int64_t steps, double peak) {
  return {.peak = peak,
          .steps = steps,
          .warm_up = std::min<std::int64_t>(steps / 10, 100),
          .floor_ratio = 0.1};
}

double Schedule::rate(std::int64_t step) const {
  if (step < warm_up) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(warm_up);
  }
  const std::int64_t length = std::max<std::int64_t>(steps - warm_up - 1, 1);
  const double part =
      std::min(1.0, static_cast<double>(step - warm_up) / static_cast<double>(length));
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * part));
  return peak * (floor_ratio + (1 - floor_ratio) * cosine);
}

}  // namespace ebb::train
