#include "offload/engine/packed.h"

#include <algorithm>

#include "allocator/error.h"

namespace ebb::offload {

using autograd::SaveSite;

void check_unwritten(const tensor::Version& version, std::uint64_t saved, const char* op) {
  const std::uint64_t now = version.value;
  EBB_CHECK(now == saved, kFailedPrecondition, "a tensor saved for the backward of ", op,
            " was changed in place since: it is at version ", now,
            ", and was saved at version ", saved);
}

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
  check_unwritten(*version_, saved_version_, op_);
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
      saved_version_(tensor.storage()->version()->value) {
  held_.bytes += bytes_;
  held_.most = std::max(held_.most, held_.bytes);
}

Engine::Impl::HeldPacked::~HeldPacked() { held_.bytes -= bytes_; }

Tensor Engine::Impl::HeldPacked::unpack() {
  check_unwritten(*tensor_.storage()->version(), saved_version_, op_);
  return tensor_.alias();
}

Tensor EmptyPacked::unpack() {
  return Tensor::over(tensor::Storage::allocate(device_, 0, Purpose::kActivations), shape_,
                      strides_, dtype_, 0);
}

}  // namespace ebb::offload
