// How the parts of a device name moments: by number, where the outside has Events.

#pragma once

#include <cstdint>

namespace ebb::device {

using Source = std::uint32_t;  // A stream or a timeline.

// Something reached: of a stream, the end of what has that ticket and of all before it; of
// a timeline, that value.
struct Point {
  Source source = 0;
  std::uint64_t ticket = 0;

  friend bool operator==(const Point&, const Point&) = default;
};

}  // namespace ebb::device
