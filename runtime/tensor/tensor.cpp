#include "runtime/tensor/tensor.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_join.h"

#include "allocator/error.h"

namespace ebb::tensor {

struct Tensor::Impl {
  StorageRef storage;
  Shape shape;
  Shape strides;
  DType dtype = DType::kF32;
  std::int64_t offset = 0;
  std::shared_ptr<AutogradMeta> autograd_meta;
};

namespace {

std::string text(const Shape& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// The number of elements. Throws if a size is negative or the bytes pass 2^62.
std::int64_t count(const Shape& shape, DType dtype) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  std::int64_t limit = kMost / static_cast<std::int64_t>(size_of(dtype));
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    EBB_CHECK(size >= 0, kInvalidArgument, "a shape of ", text(shape),
              " has a negative size");
    EBB_CHECK(size == 0 || elements <= limit / size, kInvalidArgument, "a shape of ",
              text(shape), " has more bytes than can be addressed");
    elements *= size;
  }
  return elements;
}

Shape row_major(const Shape& shape) {
  Shape strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

// Elements from the first to the last one, both included.
std::int64_t extent(const Shape& shape, const Shape& strides) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return 0;
    last += (shape[i] - 1) * strides[i];
  }
  return last + 1;
}

std::size_t index(const Shape& shape, int dimension) {
  const int dimensions = static_cast<int>(shape.size());
  const int from_front = dimension < 0 ? dimension + dimensions : dimension;
  EBB_CHECK(from_front >= 0 && from_front < dimensions, kInvalidArgument, "dimension ",
            dimension, " of a tensor with ", dimensions);
  return static_cast<std::size_t>(from_front);
}

}  // namespace

Tensor Tensor::empty(device::Device& device, Shape shape, DType dtype, Purpose purpose) {
  const std::int64_t elements = count(shape, dtype);
  const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(dtype);
  return over(Storage::allocate(device, bytes, purpose), std::move(shape), dtype);
}

Tensor Tensor::over(StorageRef storage, Shape shape, DType dtype, std::int64_t offset) {
  Shape strides = row_major(shape);
  return over(std::move(storage), std::move(shape), std::move(strides), dtype, offset);
}

Tensor Tensor::over(StorageRef storage, Shape shape, Shape strides, DType dtype,
                    std::int64_t offset) {
  EBB_CHECK(storage != nullptr, kInvalidArgument, "a tensor needs a storage");
  EBB_CHECK(shape.size() == strides.size(), kInvalidArgument, "a shape of ", text(shape),
            " does not go with strides of ", text(strides));
  count(shape, dtype);
  EBB_CHECK(std::all_of(strides.begin(), strides.end(),
                        [](std::int64_t stride) { return stride >= 0; }),
            kInvalidArgument, "strides of ", text(strides), " run backwards");
  const auto capacity = static_cast<std::int64_t>(storage->bytes() / size_of(dtype));
  EBB_CHECK(
      offset >= 0 && offset <= capacity && extent(shape, strides) <= capacity - offset,
      kInvalidArgument, "a tensor of shape ", text(shape), ", strides ", text(strides),
      " and offset ", offset, " reaches outside of a storage of ", capacity, " elements");
  Tensor tensor;
  tensor.impl_ = std::make_shared<Impl>(
      Impl{std::move(storage), std::move(shape), std::move(strides), dtype, offset, {}});
  return tensor;
}

Tensor Tensor::from_blob(device::Device& device, void* data, Shape shape, DType dtype,
                         std::function<void(const Fence& last_use)> deleter) {
  const std::size_t bytes = static_cast<std::size_t>(count(shape, dtype)) * size_of(dtype);
  return over(
      Storage::adopt(device, data, bytes, Purpose::kActivations, std::move(deleter)),
      std::move(shape), dtype);
}

const Shape& Tensor::shape() const { return impl().shape; }
const Shape& Tensor::strides() const { return impl().strides; }
std::int64_t Tensor::size(int dimension) const {
  return shape()[index(shape(), dimension)];
}
int Tensor::dimensions() const { return static_cast<int>(shape().size()); }

std::int64_t Tensor::elements() const {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape()) elements *= size;
  return elements;
}

std::size_t Tensor::bytes() const {
  return static_cast<std::size_t>(elements()) * size_of(dtype());
}

DType Tensor::dtype() const { return impl().dtype; }
std::int64_t Tensor::offset() const { return impl().offset; }

bool Tensor::contiguous() const {
  // The stride of a dimension of size 1 is never used.
  std::int64_t expected = 1;
  for (std::size_t i = shape().size(); i-- > 0;) {
    if (shape()[i] == 0) return true;
    if (shape()[i] == 1) continue;
    if (strides()[i] != expected) return false;
    expected *= shape()[i];
  }
  return true;
}

const StorageRef& Tensor::storage() const { return impl().storage; }
device::Device& Tensor::device() const { return storage()->device(); }

void* Tensor::data() const {
  const std::uintptr_t address =
      storage()->address() + static_cast<std::size_t>(offset()) * size_of(dtype());
  return reinterpret_cast<void*>(address);
}

device::Access Tensor::access(device::Access::Mode mode) const {
  return {reinterpret_cast<std::uintptr_t>(data()),
          static_cast<std::size_t>(extent(shape(), strides())) * size_of(dtype()), mode};
}

Tensor Tensor::alias() const {
  return over(storage(), shape(), strides(), dtype(), offset());
}

Tensor Tensor::view(Shape shape) const {
  EBB_CHECK(contiguous(), kInvalidArgument, "a view of shape ", text(shape),
            " of a tensor that is not contiguous: make it contiguous first");
  const auto open = std::find(shape.begin(), shape.end(), -1);
  if (open != shape.end()) {
    *open = 1;
    const std::int64_t others = count(shape, dtype());
    *open = others == 0 ? 0 : elements() / others;
  }
  EBB_CHECK(count(shape, dtype()) == elements(), kInvalidArgument, "a view of shape ",
            text(shape), " of a tensor of shape ", text(this->shape()));
  return over(storage(), std::move(shape), dtype(), offset());
}

Tensor Tensor::transpose(int a, int b) const {
  Shape new_shape = shape();
  Shape new_strides = strides();
  const std::size_t i = index(new_shape, a);
  const std::size_t j = index(new_shape, b);
  std::swap(new_shape[i], new_shape[j]);
  std::swap(new_strides[i], new_strides[j]);
  return over(storage(), std::move(new_shape), std::move(new_strides), dtype(), offset());
}

Tensor Tensor::slice(int dimension, std::int64_t begin, std::int64_t end) const {
  const std::size_t i = index(shape(), dimension);
  EBB_CHECK(begin >= 0 && begin <= end && end <= shape()[i], kInvalidArgument, "a slice [",
            begin, ", ", end, ") of a dimension of size ", shape()[i]);
  Shape new_shape = shape();
  new_shape[i] = end - begin;
  const std::int64_t new_offset =
      elements() == 0 ? offset() : offset() + begin * strides()[i];
  return over(storage(), std::move(new_shape), strides(), dtype(), new_offset);
}

Tensor Tensor::expand(Shape shape) const {
  const Shape& old = this->shape();
  EBB_CHECK(shape.size() >= old.size(), kInvalidArgument, "a tensor of shape ", text(old),
            " cannot expand to ", text(shape));
  Shape new_strides(shape.size(), 0);
  const std::size_t added = shape.size() - old.size();
  for (std::size_t i = 0; i < old.size(); ++i) {
    const bool same = shape[added + i] == old[i];
    EBB_CHECK(same || old[i] == 1, kInvalidArgument, "a tensor of shape ", text(old),
              " cannot expand to ", text(shape));
    if (same) new_strides[added + i] = strides()[i];
  }
  return over(storage(), std::move(shape), std::move(new_strides), dtype(), offset());
}

std::shared_ptr<AutogradMeta>& Tensor::autograd_meta() const {
  impl();
  return impl_->autograd_meta;
}

bool Tensor::unique() const noexcept {
  return impl_ != nullptr && impl_.use_count() == 1 && impl_->storage.use_count() == 1 &&
         impl_->storage->version().use_count() == 1;
}

const Tensor::Impl& Tensor::impl() const {
  EBB_CHECK(impl_ != nullptr, kInvalidArgument, "the tensor is undefined");
  return *impl_;
}

}  // namespace ebb::tensor
