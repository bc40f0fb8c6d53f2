#include <cstdint>

#include "kernels/cpu/check.h"
#include "kernels/cpu/ops.h"

namespace ebb::cpu::EBB_ISA {

void mean_factor(std::int64_t rows, const std::int32_t* targets, float* factor,
                 NativeQueue /*queue*/) {
  require_elements(rows, "mean_factor");
  std::int64_t counted = 0;
  for (std::int64_t i = 0; i < rows; ++i) counted += targets[i] != -1 ? 1 : 0;
  factor[0] = 1.0F / static_cast<float>(counted > 0 ? counted : 1);
}

}  // namespace ebb::cpu::EBB_ISA
