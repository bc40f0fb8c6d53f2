#include "offload/engine/engine.h"

#include <algorithm>
#include <utility>

#include "allocator/host_memory.h"
#include "offload/engine/engine_impl.h"
#include "offload/engine/packed.h"

namespace ebb::offload {

using tensor::StorageRef;

std::size_t default_min_offload_bytes(const device::Capability& capability) noexcept {
  const std::size_t latency = std::max(transfer::latency_bytes(capability.d2h),
                                       transfer::latency_bytes(capability.h2d));
  return std::max(kPageBytes, latency / 4);
}

Engine::Impl::Impl(device::Device& device, Store& store, const EngineOptions& options)
    : device_(device),
      store_(store),
      policy_(options.policy),
      min_offload_bytes_(
          std::max<std::size_t>(1, options.min_offload_bytes.value_or(
                                       default_min_offload_bytes(device.capability())))),
      fetcher_(device),
      window_(device),
      d2h_watch_(device.capability().d2h, device.capability().host_submit_seconds),
      h2d_watch_(device.capability().h2d, device.capability().host_submit_seconds),
      held_room_(device, options.device_budget_bytes) {
  device_.memory().add_reclaimer(*this);
}

Engine::Impl::~Impl() { device_.memory().remove_reclaimer(*this); }

std::size_t Engine::Impl::most_waiting_bytes(const device::LinkRate& link) const noexcept {
  return std::max(2 * largest_bytes_, transfer::latency_bytes(link));
}

void Engine::Impl::let_go(Block& block) noexcept {
  if (block.in_window || block.device == nullptr) return;
  lose(block);
  block.device.reset();
}

void Engine::Impl::give_up_device(Block& block) noexcept {
  if (block.in_window) window_.remove(block);
  let_go(block);
}

void Engine::Impl::let_oldest_go(bool ended) {
  Block& block = *window_.oldest();
  window_.let_go(block, ended);  // May throw, and then it stays.
  lose(block);
}

void Engine::Impl::lose(Block& block) noexcept {
  if (Walk* walk = walk_of(block); walk != nullptr && block.ahead) walk->lost(block);
}

void Engine::Impl::destroy(Block& block) noexcept {
  if (block.in_window) window_.remove(block);
  if (Walk* walk = walk_of(block)) walk->forget(block);
  for (const Piece& piece : block.pieces) {
    if (piece.fate == Piece::Fate::kSent) figures_.dropped_bytes += piece.span.bytes;
    if (piece.fate != Piece::Fate::kFetched) d2h_watch_.cancelled(piece.copy);
  }
  blocks_.erase(block);
}

void Engine::Impl::put_on_device(Block& block, StorageRef storage,
                                 std::size_t begin) noexcept {
  block.device_version = storage->version()->value;
  block.device = std::move(storage);
  block.device_begin = begin;
  block.fetched = {};
  block.fetch_unused = false;
}

Walk* Engine::Impl::walk_of(const Block& block) noexcept {
  for (auto walk = walks_.rbegin(); walk != walks_.rend(); ++walk) {
    if ((*walk)->lists(block)) return walk->get();
  }
  return nullptr;
}

EngineFigures Engine::Impl::figures() const {
  EngineFigures figures = figures_;
  figures.d2h_plan = d2h_watch_.plan();
  figures.h2d_plan = h2d_watch_.plan();
  return figures;
}

void Engine::Impl::end_step() {
  d2h_watch_.end_step(device_);
  h2d_watch_.end_step(device_);
  for (const WalkRecord& walk : finished_) {
    const Judgement judgement = learned_.learn(walk, device_);
    figures_.hits += judgement.hits;
    figures_.late += judgement.late;
  }
  finished_.clear();
  sent_.end_step();
  if (const std::size_t missing = std::exchange(missing_bytes_, 0)) store_.grow(missing);
  held_room_.end_step();
}

bool Engine::Impl::reclaim(std::size_t bytes) {
  std::size_t freed = 0;
  for (auto walk = walks_.rbegin(); walk != walks_.rend() && freed < bytes; ++walk) {
    while (freed < bytes) {
      Block* block = (*walk)->farthest_ahead();
      if (block == nullptr) break;
      freed += block->bytes();
      (*walk)->gave_up(*block);
      block->device.reset();
    }
  }
  while (freed < bytes && window_.oldest() != nullptr) {
    freed += window_.oldest()->bytes();
    let_oldest_go(/*ended=*/false);
  }
  if (freed > 0) return true;
  // Last, what will be used again later, if nobody uses it now.
  for (auto walk = walks_.rbegin(); walk != walks_.rend(); ++walk) {
    Block* block = (*walk)->idle();
    if (block == nullptr) continue;
    block->device.reset();
    return true;
  }
  return false;
}

Engine::Engine(device::Device& device, Store& store, const EngineOptions& options)
    : impl_(std::make_shared<Impl>(device, store, options)) {}

Engine::~Engine() = default;

autograd::PackResult Engine::pack(const Tensor& tensor, const autograd::SaveSite& site) {
  autograd::PackResult result = impl_->pack(tensor, site);
  result.by = impl_.get();
  return result;
}

void Engine::left_to_recompute(const Tensor& tensor, const autograd::SaveSite& site) {
  impl_->left_to_recompute(tensor, site);
}

void Engine::begin_backward(std::span<autograd::PackedTensor* const> order_of_use) {
  impl_->begin_backward(order_of_use);
}

void Engine::end_backward() noexcept { impl_->end_backward(); }
void Engine::end_step() { impl_->end_step(); }
EngineFigures Engine::figures() const { return impl_->figures(); }
EngineBooks Engine::books() const { return impl_->books(); }
std::vector<SentBlock> Engine::take_sent_blocks() { return impl_->take_sent_blocks(); }

}  // namespace ebb::offload
