// Who touched which bytes last: for every range its last writer, and the readers since.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"

#include "runtime/device/order_clocks.h"
#include "runtime/device/point.h"

namespace ebb::device {

// Not thread-safe.
class AccessMap {
 public:
  struct User {
    Point point;
    const char* op = "";
    const char* stream = "";
  };

  struct Range {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
  };

  // `earlier` conflicts with the access in question, and is not ordered before it.
  using Report = absl::FunctionRef<void(const User& earlier, bool wrote, Range where)>;

  // `user`, which comes after what `clock` says, reads or writes `range`.
  void read(Range range, const User& user, const Clock& clock, Report report);
  void write(Range range, const User& user, const Clock& clock, Report report);

  std::size_t segments() const noexcept { return segments_.size(); }

 private:
  struct Segment {
    std::uintptr_t end = 0;
    std::optional<User> writer;
    std::vector<User> readers;  // None of them is ordered before another.
  };
  using Segments = absl::btree_map<std::uintptr_t, Segment>;

  static bool ordered(const User& earlier, const User& user, const Clock& clock) noexcept;
  void split(std::uintptr_t at);

  Segments segments_;  // By their begin; they do not overlap.
};

}  // namespace ebb::device
