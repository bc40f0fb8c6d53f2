#include "kernels/cpu/parallel.h"

#include <omp.h>

#include <algorithm>
#include <atomic>

#include "allocator/error.h"
#include "kernels/cpu/cpu_kernels.h"

namespace ebb {
namespace {

// OpenMP keeps its count for each thread of the program; this one is for all.
std::atomic<int>& thread_count() {
  static std::atomic<int> count{std::min(omp_get_max_threads(), omp_get_thread_limit())};
  return count;
}

}  // namespace

int set_cpu_threads(int threads) {
  EBB_CHECK(threads >= 1, kInvalidArgument, "set_cpu_threads: ", threads,
            " threads; at least 1 is needed");
  // Where a limit is set (OMP_THREAD_LIMIT), oneDNN must not count on more.
  return thread_count().exchange(std::min(threads, omp_get_thread_limit()));
}

int cpu_threads() { return thread_count().load(std::memory_order_relaxed); }

namespace cpu {

void run_parallel(std::int64_t count, Schedule schedule, LoopBody body) {
  const int threads = static_cast<int>(std::min<std::int64_t>(cpu_threads(), count));
  if (threads <= 1) {
    for (std::int64_t i = 0; i < count; ++i) body.call(body.object, i, 0);
  } else if (schedule == Schedule::kEqualRuns) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (std::int64_t i = 0; i < count; ++i)
      body.call(body.object, i, omp_get_thread_num());
  } else {
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (std::int64_t i = 0; i < count; ++i)
      body.call(body.object, i, omp_get_thread_num());
  }
}

void use_threads_in_libraries() {
  if (omp_get_max_threads() != cpu_threads()) omp_set_num_threads(cpu_threads());
}

}  // namespace cpu
}  // namespace ebb
