// The blocks that wait for their copies to the store, with the device memory under them.
//
// A block leaves when compute is ordered after its copy, or the copy has ended; then its
// device memory is let go of, with the copy in its fence. A block that is needed while it
// is here is used where it is.

#pragma once

#include <cstddef>

#include "offload/engine/block.h"
#include "runtime/device/device.h"

namespace ebb::offload {

// One thread at a time. `device` outlives the window. A list through its blocks, so that
// nothing but a wait can fail.
class Window {
 public:
  explicit Window(device::Device& device) : device_(device) {}

  // `block` has its device memory, and a copy of it is queued.
  void push(Block& block) noexcept;
  // The block that came first, or null.
  Block* oldest() noexcept { return oldest_; }
  // Lets go of the block's device memory, with compute made to wait for its copy, unless
  // that has `ended`.
  void let_go(Block& block, bool ended);
  // Takes `block` out; its device memory stays with it.
  void remove(Block& block) noexcept;

  std::size_t bytes() const noexcept { return bytes_; }

 private:
  device::Device& device_;
  Block* oldest_ = nullptr;
  Block* newest_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace ebb::offload
