#include "kernels/cpu/instruction_sets.h"

#include <array>

namespace ebb::cpu {

// Defined by table.cpp, which is compiled for each of them.
namespace x86_64_v4 {
const Kernels& table();
}
namespace x86_64_v3 {
const Kernels& table();
}
namespace any {
const Kernels& table();
}

// What each level asks for that the kernels' code may use: System V ABI for x86-64, section
// 3.1.1.
std::span<const InstructionSet> instruction_sets() {
  static const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  static const bool v4 =
      v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl");
  static const std::array<InstructionSet, 3> sets = {{
      {"x86-64-v4", v4, &x86_64_v4::table()},
      {"x86-64-v3", v3, &x86_64_v3::table()},
      {"any", true, &any::table()},
  }};
  return sets;
}

}  // namespace ebb::cpu
