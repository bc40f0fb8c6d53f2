// The smallest budget that works, found by trying.

#pragma once

#include <cstddef>
#include <functional>

namespace ebb::cli {

// Whether a budget of so many bytes works. Deterministic; nearly, but not always, monotone:
// a little more room can change an arena's choices for the worse.
using Works = std::function<bool(std::size_t bytes)>;

// A budget b with works(b), and works(0.97 b) false: by bisection to 0.5 %, and again below
// wherever a probe further down works after all. `fails` does not work (0 never does),
// `enough` does. Multiples of 512 bytes, unless it is `enough` itself.
std::size_t smallest_budget(std::size_t fails, std::size_t enough, const Works& works);

}  // namespace ebb::cli
