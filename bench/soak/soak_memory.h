// Watches whether memory is flat.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/soak/soak.h"

namespace ebb::bench {

// Resident bytes of this process; 0 where the system does not say.
std::size_t resident_bytes();

// One thread at a time.
class MemoryWatch {
 public:
  // Of a run of `steps` steps; `before` is what there is with no graph alive.
  MemoryWatch(std::int64_t steps, const SoakMemory& before);

  // At the end of a step (from 1) with no graph alive. Returns what is not as before, in
  // words; none: "".
  std::string add(std::int64_t step, const SoakMemory& now);
  // When all steps are over: what has grown without a bound, in words. Random graphs reach
  // new heights now and then, so this is generous: exact is what add() says.
  std::string growth(std::size_t most_resident_growth_bytes) const;

  const std::vector<SoakWindow>& windows() const noexcept { return windows_; }
  // The slope of the second half.
  double resident_growth_bytes_per_step() const;

 private:
  struct Resident {
    double step = 0;
    double bytes = 0;
  };

  const std::int64_t steps_;
  const SoakMemory before_;
  std::vector<SoakWindow> windows_;
  std::vector<Resident> resident_;  // Of the second half.
};

}  // namespace ebb::bench
