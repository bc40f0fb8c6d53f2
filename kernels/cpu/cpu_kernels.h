// The op table of the CPU, on oneDNN and OpenMP.

#pragma once

#include "kernels/kernels.h"

namespace ebb {

// The table for the best instruction set of this machine, on cpu_threads() OpenMP threads.
// Instruction set, threads and shapes fix the bits.
const Kernels& cpu_kernels();

// Sets how many threads the CPU's kernels use from now on (at least 1; no more than
// OMP_THREAD_LIMIT allows), and returns the count before. Process-wide, as OpenMP is. A
// build by clang runs only oneDNN's part on more than one.
int set_cpu_threads(int threads);
int cpu_threads();

}  // namespace ebb
