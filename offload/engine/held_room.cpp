#include "offload/engine/held_room.h"

#include <algorithm>

namespace ebb::offload {

std::optional<std::size_t> HeldRoom::budget() const {
  if (budget_bytes_) return budget_bytes_;
  return device_.memory().figures().limit_bytes;
}

bool HeldRoom::has(std::size_t bytes, bool can_recompute) const {
  const std::optional<std::size_t> budget = this->budget();
  if (!budget) return true;
  // The other choice costs but time: the rest of the step goes first.
  if (can_recompute) return left_ && remade_.bytes + needed_.most + bytes <= *left_;
  return device_.memory().figures().lent.total() + bytes <= *budget;
}

void HeldRoom::hold(std::size_t bytes, bool can_recompute) noexcept {
  Held& held = this->held(can_recompute);
  held.bytes += bytes;
  held.most = std::max(held.most, held.bytes);
}

void HeldRoom::release(std::size_t bytes, bool can_recompute) noexcept {
  held(can_recompute).bytes -= bytes;
}

void HeldRoom::end_step() {
  const std::optional<std::size_t> budget = this->budget();
  if (!budget) return;
  const std::size_t taken = device_.memory().figures().peak_reserved_bytes;
  left_ = *budget - std::min(*budget, taken) + remade_.most + needed_.most;
}

}  // namespace ebb::offload
