#include "offload/engine/window.h"

namespace ebb::offload {

void Window::push(Block& block) noexcept {
  block.window_older = newest_;
  block.window_newer = nullptr;
  (newest_ == nullptr ? oldest_ : newest_->window_newer) = &block;
  newest_ = &block;
  block.in_window = true;
  bytes_ += block.bytes();
}

void Window::let_go(Block& block, bool ended) {
  if (!ended) {
    // Not for the order, which the memory's own fence keeps: so that compute does not run
    // on in fresh memory while the copies fall behind.
    device_.current_stream().wait(block.stored(),
                                  {device::StallCause::kD2HBacklog, "engine.window"});
  }
  remove(block);
  block.device.reset();
}

void Window::remove(Block& block) noexcept {
  Block* const older = block.window_older;
  Block* const newer = block.window_newer;
  (older == nullptr ? oldest_ : older->window_newer) = newer;
  (newer == nullptr ? newest_ : newer->window_older) = older;
  block.in_window = false;
  bytes_ -= block.bytes();
}

}  // namespace ebb::offload
