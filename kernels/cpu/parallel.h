// Splits loops over the CPU's threads.
//
// An index's work must not depend on the thread that does it, so that bits do not depend on
// the thread count. What `body` throws cannot leave a parallel loop: check first.

#pragma once

#include <algorithm>
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
  void (*call)(const void* object, std::int64_t index);
};

void run_parallel(std::int64_t count, Schedule schedule, LoopBody body);

// body(i) for i in [0, count).
template <typename Body>
void parallel_for(std::int64_t count, const Body& body,
                  Schedule schedule = Schedule::kEqualRuns) {
  run_parallel(count, schedule, {&body, [](const void* object, std::int64_t index) {
                                   (*static_cast<const Body*>(object))(index);
                                 }});
}

// body(begin, end) for consecutive pieces of [0, count) of `piece` indices each, the last
// one shorter.
template <typename Body>
void parallel_pieces(std::int64_t count, std::int64_t piece, const Body& body) {
  parallel_for((count + piece - 1) / piece,
               [&](std::int64_t i) { body(i * piece, std::min(count, (i + 1) * piece)); });
}

}  // namespace ebb::cpu
