#include "offload/engine/lookahead.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace ebb::offload {

Lookahead::Lookahead(std::span<const double> gaps, std::span<const double> copies)
    : latest_start_(gaps.size()), next_chance_(gaps.size() + 1) {
  assert(gaps.size() == copies.size());
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> use(gaps.size());
  double time = 0;
  for (std::size_t i = 0; i < gaps.size(); ++i) use[i] = time += gaps[i];

  next_chance_.back() = kNever;
  double start = kNever;
  for (std::size_t i = gaps.size(); i-- > 0;) {
    latest_start_[i] = start = std::min(use[i], start) - copies[i];
    const double before = i == 0 ? 0 : use[i - 1];
    next_chance_[i] = use[i] > before ? use[i] : next_chance_[i + 1];
  }
}

bool Lookahead::wants(std::ptrdiff_t now, std::size_t next) const noexcept {
  if (!learned()) return true;
  const double chance = next_chance_[static_cast<std::size_t>(now + 1)];
  const auto after = static_cast<std::size_t>(now + 1);
  // The one block more is the first that could wait for the next chance.
  return next <= after || latest_start_[next] < chance || latest_start_[next - 1] < chance;
}

}  // namespace ebb::offload
