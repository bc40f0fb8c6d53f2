#include "offload/engine/packed.h"

namespace ebb::offload {

using autograd::SaveSite;

Engine::Impl::Packed::Packed(std::shared_ptr<Impl> engine, Block& block,
                             const Tensor& tensor, std::size_t begin, const char* op)
    : engine_(std::move(engine)),
      layout_(tensor.shape().begin(), tensor.shape().end()),
      dtype_(tensor.dtype()),
      begin_(begin),
      op_(op),
      version_(tensor) {
  layout_.insert(layout_.end(), tensor.strides().begin(), tensor.strides().end());
  block.attach(view_);
}

Engine::Impl::Packed::~Packed() {
  used();
  Block& last = block();
  last.detach(view_);
  if (last.views.empty()) engine_->destroy(last);
}

Tensor Engine::Impl::Packed::unpack() {
  version_.check(op_);
  want();
  engine_->use(block());
  const std::size_t offset = block().device_begin + (begin_ - block().span.begin);
  const auto strides = layout_.begin() + layout_.size() / 2;
  return Tensor::over(block().device, {layout_.begin(), strides}, {strides, layout_.end()},
                      dtype_, static_cast<std::int64_t>(offset / size_of(dtype_)));
}

void Engine::Impl::Packed::want() noexcept {
  if (std::exchange(wanted_, true)) return;
  ++block().wanted;
}

void Engine::Impl::Packed::used() noexcept {
  if (!std::exchange(wanted_, false)) return;
  if (--block().wanted == 0) engine_->let_go(block());
}

Engine::Impl::HeldPacked::HeldPacked(std::shared_ptr<Impl> engine, const Tensor& tensor,
                                     std::size_t bytes, const SaveSite& site)
    : engine_(std::move(engine)),
      tensor_(tensor.alias()),
      bytes_(bytes),
      op_(site.op),
      can_recompute_(site.can_recompute),
      version_(tensor) {
  engine_->held_room_.hold(bytes_, can_recompute_);
}

Engine::Impl::HeldPacked::~HeldPacked() {
  engine_->held_room_.release(bytes_, can_recompute_);
}

Tensor Engine::Impl::HeldPacked::unpack() {
  version_.check(op_);
  return tensor_.alias();
}

Tensor EmptyPacked::unpack() {
  return Tensor::over(tensor::Storage::allocate(device_, 0, Purpose::kActivations), shape_,
                      strides_, dtype_, 0);
}

}  // namespace ebb::offload
