#include <algorithm>
#include <cstdint>

#include "kernels/cpu/check.h"
#include "kernels/cpu/ops.h"

namespace ebb::cpu {

void mean_factor(std::int64_t rows, const std::int32_t* targets, float* factor,
                 NativeQueue) {
  require_elements(rows, "mean_factor");
  const auto left_out = std::count(targets, targets + rows, -1);
  factor[0] = 1.0F / static_cast<float>(std::max<std::int64_t>(1, rows - left_out));
}

}  // namespace ebb::cpu
