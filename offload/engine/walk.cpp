#include "offload/engine/walk.h"

#include <algorithm>

namespace ebb::offload {

Walk::Walk(std::uint64_t id, std::span<Block* const> order, const Event& began) : id_(id) {
  record_.began = began;
  order_.reserve(order.size());
  record_.sizes.reserve(order.size());
  for (Block* block : order) {
    if (block->walk == id) continue;
    block->walk = id;
    block->position = order_.size();
    block->asked = false;
    block->ahead = false;
    order_.push_back(block);
    record_.sizes.push_back(block->bytes());
    if (block->device != nullptr) set_ahead(*block, true);
  }
  record_.uses.reserve(order_.size());
  record_.not_before.assign(order_.size(), -1);
}

void Walk::ask(Block& block) {
  if (block.asked) return;
  block.asked = true;
  set_ahead(block, false);
  record_.in_order =
      record_.in_order && block.position == static_cast<std::size_t>(now_ + 1);
  while (static_cast<std::size_t>(now_ + 1) < order_.size()) {
    const Block* following = order_[static_cast<std::size_t>(now_ + 1)];
    if (following != nullptr && !following->asked) break;
    ++now_;
  }
}

Block* Walk::next() {
  for (; next_ < order_.size(); ++next_) {
    Block* block = order_[next_];
    if (block == nullptr || block->asked || block->wanted == 0) continue;
    if (block->device == nullptr) return block;
  }
  return nullptr;
}

void Walk::fetched(Block& block) {
  set_ahead(block, true);
  ++next_;
}

void Walk::lost(Block& block) noexcept {
  set_ahead(block, false);
  next_ = std::min(next_, block.position);
}

void Walk::gave_up(Block& block) noexcept {
  lost(block);
  std::vector<std::ptrdiff_t>& not_before = record_.not_before;
  for (std::size_t i = block.position; i < not_before.size(); ++i) {
    not_before[i] = std::max(not_before[i], now_ + 1);
  }
}

void Walk::forget(Block& block) noexcept {
  set_ahead(block, false);
  order_[block.position] = nullptr;
}

Block* Walk::farthest_ahead() noexcept {
  for (std::size_t i = std::min(next_, order_.size()); i-- > 0;) {
    Block* block = order_[i];
    if (block != nullptr && block->ahead && !block->in_window) return block;
  }
  return nullptr;
}

Block* Walk::idle() noexcept {
  for (Block* block : order_) {
    if (block != nullptr && block->asked && !block->in_window && block->device != nullptr &&
        block->device.use_count() == 1) {
      return block;
    }
  }
  return nullptr;
}

void Walk::set_ahead(Block& block, bool ahead) noexcept {
  if (block.ahead == ahead) return;
  block.ahead = ahead;
  ahead_bytes_ = ahead ? ahead_bytes_ + block.bytes() : ahead_bytes_ - block.bytes();
}

}  // namespace ebb::offload
