// A saved tensor in the engine's hands: a layout over a block.

#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/container/inlined_vector.h"

#include "offload/engine/engine_impl.h"
#include "runtime/tensor/saved_version.h"

namespace ebb::offload {

class Engine::Impl::Packed final : public autograd::PackedTensor {
 public:
  // `begin`: of the first element within the block's own storage, in bytes.
  Packed(std::shared_ptr<Impl> engine, Block& block, const Tensor& tensor,
         std::size_t begin, const char* op);
  ~Packed() override;

  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;

  Tensor unpack() override;
  void used() noexcept override;

  // Backward will ask for it (again, after used()).
  void want() noexcept;

  Block& block() const noexcept { return *view_.block; }

 private:
  const std::shared_ptr<Impl> engine_;
  BlockView view_;
  // Its shape, and behind that its strides.
  absl::InlinedVector<std::int64_t, 8> layout_;
  const DType dtype_;
  const std::size_t begin_;
  const char* const op_;
  // Of the storage that it was saved from, which may be a copy of the block's own.
  const tensor::SavedVersion version_;
  bool wanted_ = false;
};

// A saved tensor that stays on the device because the store was full: as a tape would keep
// it, but the engine knows of it as long as it lives.
class Engine::Impl::HeldPacked final : public autograd::PackedTensor {
 public:
  HeldPacked(std::shared_ptr<Impl> engine, const Tensor& tensor, std::size_t bytes,
             const autograd::SaveSite& site);
  ~HeldPacked() override;

  HeldPacked(const HeldPacked&) = delete;
  HeldPacked& operator=(const HeldPacked&) = delete;

  Tensor unpack() override;
  void used() noexcept override {}

 private:
  const std::shared_ptr<Impl> engine_;
  const Tensor tensor_;
  const std::size_t bytes_;
  const char* const op_;
  const bool can_recompute_;
  const tensor::SavedVersion version_;
};

// A saved tensor without elements, over a storage that it shall not keep.
class EmptyPacked final : public autograd::PackedTensor {
 public:
  explicit EmptyPacked(const Tensor& tensor)
      : device_(tensor.device()),
        shape_(tensor.shape()),
        strides_(tensor.strides()),
        dtype_(tensor.dtype()) {}

  Tensor unpack() override;
  void used() noexcept override {}

 private:
  device::Device& device_;
  const tensor::Shape shape_;
  const tensor::Shape strides_;
  const DType dtype_;
};

}  // namespace ebb::offload
