#include "offload/engine/window.h"

namespace ebb::offload {

void Window::push(Block& block) {
  block.window_place = blocks_.insert(blocks_.end(), &block);
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
  blocks_.erase(block.window_place);
  block.in_window = false;
  bytes_ -= block.bytes();
}

}  // namespace ebb::offload
