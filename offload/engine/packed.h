// A saved tensor in the engine's hands: a layout over a block.

#pragma once

#include <memory>
#include <utility>

#include "offload/engine/engine_impl.h"

namespace ebb::offload {

class Engine::Impl::Packed final : public autograd::PackedTensor {
 public:
  Packed(std::shared_ptr<Impl> engine, Block& block, const Tensor& tensor);
  ~Packed() override;

  Tensor unpack() override;
  void used() noexcept override;

  // Backward will ask for it (again, after used()).
  void want() noexcept;

  Block& block() const noexcept { return block_; }

 private:
  const std::shared_ptr<Impl> engine_;
  Block& block_;
  const tensor::Shape shape_;
  const tensor::Shape strides_;
  const DType dtype_;
  const std::size_t begin_;  // Of the first element within the block, in bytes.
  bool wanted_ = true;
};

}  // namespace ebb::offload
