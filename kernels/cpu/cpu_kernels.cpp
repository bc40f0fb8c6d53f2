#include "kernels/cpu/cpu_kernels.h"

#include <algorithm>

#include "kernels/cpu/instruction_sets.h"

namespace ebb {

const Kernels& cpu_kernels() {
  const auto sets = cpu::instruction_sets();
  return *std::find_if(sets.begin(), sets.end(), [](const cpu::InstructionSet& set) {
            return set.supported;
          })->table;
}

}  // namespace ebb
