#include "offload/engine/packed.h"

#include "allocator/error.h"

namespace ebb::offload {

Engine::Impl::Packed::Packed(std::shared_ptr<Impl> engine, Block& block,
                             const Tensor& tensor)
    : engine_(std::move(engine)),
      block_(block),
      shape_(tensor.shape()),
      strides_(tensor.strides()),
      dtype_(tensor.dtype()),
      begin_(static_cast<std::size_t>(tensor.offset()) * size_of(tensor.dtype()) -
             block.key.begin) {
  ++block_.holders;
  ++block_.wanted;
}

Engine::Impl::Packed::~Packed() {
  used();
  if (--block_.holders == 0) engine_->destroy(block_);
}

Tensor Engine::Impl::Packed::unpack() {
  EBB_CHECK(block_.version->value == block_.key.version, kFailedPrecondition,
            "a tensor saved for the backward of ", block_.op,
            " was changed in place since: it is at version ", block_.version->value.load(),
            ", and was saved at version ", block_.key.version);
  want();
  engine_->use(block_);
  const auto offset = (block_.device_begin + begin_) / size_of(dtype_);
  return Tensor::over(block_.device, shape_, strides_, dtype_,
                      static_cast<std::int64_t>(offset));
}

void Engine::Impl::Packed::want() noexcept {
  if (std::exchange(wanted_, true)) return;
  ++block_.wanted;
}

void Engine::Impl::Packed::used() noexcept {
  if (!std::exchange(wanted_, false)) return;
  if (--block_.wanted == 0) engine_->let_go(block_);
}

}  // namespace ebb::offload
