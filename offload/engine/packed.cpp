#include "offload/engine/packed.h"

#include <algorithm>

namespace ebb::offload {

using autograd::SaveSite;

Engine::Impl::Packed::Packed(std::shared_ptr<Impl> engine, Block& block,
                             const Tensor& tensor, std::size_t begin, const char* op)
    : engine_(std::move(engine)),
      shape_(tensor.shape()),
      strides_(tensor.strides()),
      dtype_(tensor.dtype()),
      begin_(begin),
      op_(op),
      version_(tensor) {
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
  return Tensor::over(block().device, shape_, strides_, dtype_,
                      static_cast<std::int64_t>(offset / size_of(dtype_)));
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
      held_(site.can_recompute ? engine_->remade_ : engine_->needed_),
      version_(tensor) {
  held_.bytes += bytes_;
  held_.most = std::max(held_.most, held_.bytes);
}

Engine::Impl::HeldPacked::~HeldPacked() { held_.bytes -= bytes_; }

Tensor Engine::Impl::HeldPacked::unpack() {
  version_.check(op_);
  return tensor_.alias();
}

Tensor EmptyPacked::unpack() {
  return Tensor::over(tensor::Storage::allocate(device_, 0, Purpose::kActivations), shape_,
                      strides_, dtype_, 0);
}

}  // namespace ebb::offload
