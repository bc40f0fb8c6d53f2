// Splits loops over the CPU's threads.
//
// An index's work must not depend on the thread that does it, so that bits do not depend on
// the thread count. What `body` throws cannot leave a parallel loop: check first.

#pragma once

#include <cstdint>

namespace ebb::cpu {

// How indices are given to threads.
enum class Schedule : std::uint8_t {
  kEqualRuns,  // As many to each, next to each other.
  kNextFree,   // Where indices differ in work: a free thread takes the next one.
};

// A loop's body without its type, so that the loop itself is compiled once.
struct LoopBody {
  const void* object;
  void (*call)(const void* object, std::int64_t index, int worker);
};

void run_parallel(std::int64_t count, Schedule schedule, LoopBody body);

// body(i) for i in [0, count).
template <typename Body>
void parallel_for(std::int64_t count, const Body& body) {
  run_parallel(count, Schedule::kEqualRuns,
               {&body, [](const void* object, std::int64_t index, int /*worker*/) {
                  (*static_cast<const Body*>(object))(index);
                }});
}

// body(i, worker) for i in [0, count), where no two calls at a time have the same worker,
// and workers count from 0 to cpu_threads() - 1: for scratch memory.
template <typename Body>
void parallel_tasks(std::int64_t count, const Body& body) {
  run_parallel(count, Schedule::kNextFree,
               {&body, [](const void* object, std::int64_t index, int worker) {
                  (*static_cast<const Body*>(object))(index, worker);
                }});
}

// body(begin, end) for consecutive pieces of [0, count) of `piece` indices each, the last
// one shorter.
template <typename Body>
void parallel_pieces(std::int64_t count, std::int64_t piece, const Body& body) {
  parallel_for((count + piece - 1) / piece, [&](std::int64_t i) {
    body(i * piece, count - i * piece < piece ? count : (i + 1) * piece);
  });
}

// Tells the OpenMP of the calling thread how many threads the libraries it calls may use.
void use_threads_in_libraries();

}  // namespace ebb::cpu
