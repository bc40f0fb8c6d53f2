// Tensors: a shape laid over a storage.

#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "kernels/dtype.h"
#include "runtime/tensor/storage.h"

namespace ebb::tensor {

using Shape = std::vector<std::int64_t>;

// What autograd keeps with a tensor; this layer only carries it.
class AutogradMeta {
 public:
  virtual ~AutogradMeta() = default;
};

// A handle: copies share one tensor. An undefined tensor (a default one) stands for "none".
// Sizes and strides are in elements. One thread at a time.
class Tensor {
 public:
  Tensor() = default;

  // A contiguous tensor in new memory of `device`; its bytes are not set.
  static Tensor empty(device::Device& device, Shape shape, DType dtype,
                      Purpose purpose = Purpose::kActivations);
  // A tensor over a storage, row-major from `offset` (in elements) unless `strides` says
  // otherwise. Error{kInvalidArgument} if it would reach outside of the storage.
  static Tensor over(StorageRef storage, Shape shape, DType dtype, std::int64_t offset = 0);
  static Tensor over(StorageRef storage, Shape shape, Shape strides, DType dtype,
                     std::int64_t offset);
  // A job's own device memory; it counts as activations. `deleter` gets the fence of the
  // last op that uses it.
  static Tensor from_blob(device::Device& device, void* data, Shape shape, DType dtype,
                          std::function<void(const Fence& last_use)> deleter);

  bool defined() const noexcept { return impl_ != nullptr; }
  const Shape& shape() const;
  const Shape& strides() const;
  std::int64_t size(int dimension) const;  // Negative counts from the end.
  int dimensions() const;
  std::int64_t elements() const;
  std::size_t bytes() const;  // elements() * size_of(dtype()).
  DType dtype() const;
  std::int64_t offset() const;
  bool contiguous() const;
  const StorageRef& storage() const;
  device::Device& device() const;

  // The first element, for op bodies.
  void* data() const;
  template <typename T>
  T* data_as() const {
    return static_cast<T*>(data());
  }

  // The bytes between the first and the last element, for op declarations.
  device::Access access(device::Access::Mode mode) const;

  // Other tensors over the same storage; without autograd (autograd/ops.h has the
  // differentiable ones).
  Tensor alias() const;            // Same layout, no AutogradMeta.
  Tensor view(Shape shape) const;  // Error{kInvalidArgument} unless contiguous, and of as
                                   // many elements. One -1 is worked out.
  Tensor transpose(int a, int b) const;
  Tensor slice(int dimension, std::int64_t begin, std::int64_t end) const;
  Tensor expand(Shape shape) const;

  std::shared_ptr<AutogradMeta>& autograd_meta() const;

  // Whether both are handles of one tensor.
  bool is(const Tensor& other) const noexcept { return impl_ == other.impl_; }
  // Whether this is the only handle of its tensor, that the only tensor over its storage,
  // and nobody who saved one counts on its bytes: nobody would see it written over.
  bool unique() const noexcept;

 private:
  struct Impl;
  const Impl& impl() const;  // Error{kInvalidArgument} if undefined.

  std::shared_ptr<Impl> impl_;
};

}  // namespace ebb::tensor

namespace ebb {
using tensor::Tensor;
}
