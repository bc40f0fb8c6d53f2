// Device memory that was lent again and not touched since.
//
// What is still in it is nobody's to read: the first op that declares some of it finds it
// overwritten. It is done as part of that op, so that it takes no place in the order of a
// stream, and what the arena hands out is the same with it and without. (Copies into it
// overwrite it anyway: submitted, or announced by a hold, they count as its first use.)

#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
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

  void add(std::uintptr_t begin, std::uintptr_t end) {
    const absl::MutexLock lock(&mutex_);
    ranges_.set(begin, end, {});
  }
  // It is touched, or given back.
  void drop(std::uintptr_t begin, std::uintptr_t end) {
    const absl::MutexLock lock(&mutex_);
    if (!ranges_.empty()) ranges_.take(begin, end, [](auto, auto, Nothing) {});
  }

  // `body` behind what overwrites the fresh parts of `accesses`, which are touched by that.
  Body overwrite_before(std::span<const Access> accesses, Body body) {
    std::vector<Range> parts = take(accesses);
    if (parts.empty()) return body;
    return [parts = std::move(parts), body = std::move(body)](void* native) mutable {
      for (const Range& part : parts) overwrite(part);
      if (body) body(native);
    };
  }

 private:
  struct Nothing {};
  struct Range {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
  };

  std::vector<Range> take(std::span<const Access> accesses) {
    const absl::MutexLock lock(&mutex_);
    std::vector<Range> parts;
    if (ranges_.empty()) return parts;
    for (const Access& access : accesses) {
      ranges_.take(access.address, access.address + access.bytes,
                   [&](std::uintptr_t from, std::uintptr_t to, Nothing) {
                     parts.push_back({from, to});
                   });
    }
    return parts;
  }

  // Parts may begin and end within a word.
  static void overwrite(const Range& part) {
    constexpr std::uintptr_t kWord = sizeof kPoison;
    const std::uintptr_t first =
        std::min(part.end, (part.begin + kWord - 1) / kWord * kWord);
    const std::uintptr_t last = std::max(first, part.end / kWord * kWord);
    for (std::uintptr_t at = part.begin; at < first; ++at) overwrite_byte(at);
    std::fill_n(reinterpret_cast<std::uint32_t*>(first), (last - first) / kWord, kPoison);
    for (std::uintptr_t at = last; at < part.end; ++at) overwrite_byte(at);
  }
  static void overwrite_byte(std::uintptr_t at) {
    *reinterpret_cast<std::uint8_t*>(at) =
        static_cast<std::uint8_t>(kPoison >> at % sizeof kPoison * 8);
  }

  absl::Mutex mutex_;
  RangeMap<Nothing> ranges_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ebb::device
