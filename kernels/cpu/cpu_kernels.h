// The op table of the CPU, on oneDNN and OpenMP.

#pragma once

#include "kernels/kernels.h"

namespace ebb {

// Runs with `threads` OpenMP threads. Threads and shapes fix the bits. Process-wide,
// because OpenMP is: two tables with different counts must not run at the same time.
const Kernels& cpu_kernels();

// Sets how many threads the CPU's kernels use from now on (at least 1; no more than
// OMP_THREAD_LIMIT allows), and returns the count before. A build by clang runs only
// oneDNN's part on more than one.
int set_cpu_threads(int threads);
int cpu_threads();

}  // namespace ebb
