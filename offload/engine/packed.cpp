#include "offload/engine/packed.h"

#include "allocator/error.h"

namespace ebb::offload {

Engine::Impl::Packed::Packed(std::shared_ptr<Impl> engine, Block& block,
                             const Tensor& tensor, std::size_t begin, const char* op)
    : engine_(std::move(engine)),
      shape_(tensor.shape()),
      strides_(tensor.strides()),
      dtype_(tensor.dtype()),
      begin_(begin),
      op_(op),
      version_(tensor.storage()->version()),
      saved_version_(version_->value) {
  block.attach(view_);
}

Engine::Impl::Packed::~Packed() {
  used();
  Block& last = block();
  last.detach(view_);
  if (last.views.empty()) engine_->destroy(last);
}

Tensor Engine::Impl::Packed::unpack() {
  const std::uint64_t now = version_->value;
  EBB_CHECK(now == saved_version_, kFailedPrecondition,
            "a tensor saved for the backward of ", op_,
            " was changed in place since: it is at version ", now,
            ", and was saved at version ", saved_version_);
  want();
  engine_->use(block());
  const std::size_t offset = block().device_begin + (begin_ - block().key.begin);
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

Tensor EmptyPacked::unpack() {
  return Tensor::over(tensor::Storage::allocate(device_, 0, Purpose::kActivations), shape_,
                      strides_, dtype_, 0);
}

}  // namespace ebb::offload
