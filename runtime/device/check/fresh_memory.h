// Device memory that was lent again and not touched since.
//
// What is still in it is nobody's to read: the first op that declares some of it finds it
// overwritten. It is done as part of that op, so that it takes no place in the order of a
// stream, and what the arena hands out is the same with it and without. (Copies into it
// overwrite it anyway: submitted, or announced by a hold, they count as its first use.)

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

#include "runtime/device/check/range_map.h"
#include "runtime/device/stream.h"

namespace ebb::device {

// Thread-safe.
class FreshMemory {
 public:
  // A NaN in f32 and bf16, and a negative index.
  static constexpr std::uint32_t kPoison = 0xFFEBFFEB;

  void add(std::uintptr_t begin, std::uintptr_t end);
  // It is touched, or given back.
  void drop(std::uintptr_t begin, std::uintptr_t end);

  // `body` behind what overwrites the fresh parts of `accesses`, which are touched by that.
  Body overwrite_before(std::span<const Access> accesses, Body body);

 private:
  struct Nothing {};
  struct Range {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
  };

  std::vector<Range> take(std::span<const Access> accesses);
  static void overwrite(const Range& part);

  absl::Mutex mutex_;
  RangeMap<Nothing> ranges_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ebb::device
