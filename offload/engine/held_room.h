// Room on the device for saved tensors that the store had none for.
//
// Those that could be made again only take what the rest of the step leaves of the budget:
// what no step before took of the device, and what was kept then, less what could not be
// made again. Those that could not are kept as long as the budget has that much free.

#pragma once

#include <cstddef>
#include <optional>

#include "runtime/device/device.h"

namespace ebb::offload {

// One thread at a time. `device` outlives it.
class HeldRoom {
 public:
  // Bytes that are held now, and at most so far.
  struct Held {
    std::size_t bytes = 0;
    std::size_t most = 0;
  };

  // No `budget_bytes`: the limit of the device's memory.
  HeldRoom(device::Device& device, std::optional<std::size_t> budget_bytes) noexcept
      : device_(device), budget_bytes_(budget_bytes) {}

  // None: the device has no limit.
  std::optional<std::size_t> budget() const;
  // Whether there is room for `bytes` more.
  bool has(std::size_t bytes, bool can_recompute) const;

  // Counts a tensor as held, and no longer so. The first cannot fail, has() or not.
  void hold(std::size_t bytes, bool can_recompute) noexcept;
  void release(std::size_t bytes, bool can_recompute) noexcept;
  std::size_t bytes() const noexcept { return remade_.bytes + needed_.bytes; }

  // A step is over: from now on it is known what the steps leave of the budget.
  void end_step();

 private:
  Held& held(bool can_recompute) noexcept { return can_recompute ? remade_ : needed_; }

  device::Device& device_;
  const std::optional<std::size_t> budget_bytes_;
  Held remade_;                      // What could be made again,
  Held needed_;                      // and what could not.
  std::optional<std::size_t> left_;  // For both. None: in the first step.
};

}  // namespace ebb::offload
