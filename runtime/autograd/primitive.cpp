#include "runtime/autograd/primitive.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/tensor/launch.h"

namespace ebb::autograd {
namespace {

double operand_bytes(std::initializer_list<Tensor> reads,
                     std::initializer_list<Tensor> writes) {
  double bytes = 0;
  std::vector<device::Access> seen;
  for (const auto& list : {reads, writes}) {
    for (const Tensor& tensor : list) {
      if (!tensor.defined() || tensor.storage()->purpose() == Purpose::kWorkspace) continue;
      const device::Access access = tensor.access(device::Access::Mode::kRead);
      bool again = false;
      for (const device::Access& other : seen) {
        again = again || (other.address == access.address && other.bytes == access.bytes);
      }
      if (again) continue;
      seen.push_back(access);
      bytes += static_cast<double>(access.bytes);
    }
  }
  return bytes;
}

}  // namespace

double flops(const LinearShape& shape) {
  return 2.0 * static_cast<double>(shape.rows) * static_cast<double>(shape.in) *
         static_cast<double>(shape.out);
}

void launch_op(const Op& op, std::initializer_list<Tensor> reads,
               std::initializer_list<Tensor> writes, device::Body body) {
  const double bytes = op.bytes ? *op.bytes : operand_bytes(reads, writes);
  tensor::launch({.name = op.name,
                  .accesses = {},
                  .work = {.flops = op.flops, .bytes = bytes, .dtype = op.dtype},
                  .phase = phase(),
                  .stage = stage(),
                  .probe = op.probe},
                 reads, writes, std::move(body));
}

Tensor workspace(device::Device& device, std::size_t bytes) {
  if (bytes == 0) return {};
  return Tensor::empty(device, {static_cast<std::int64_t>(bytes)}, DType::kU8,
                       Purpose::kWorkspace);
}

Workspace workspace_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {tensor.data(), tensor.bytes()};
}

void fill(const Tensor& y, float value) {
  EBB_CHECK(y.contiguous(), kInvalidArgument, "fill: the tensor is not contiguous");
  if (y.elements() == 0) return;
  launch_op({.name = "fill", .dtype = y.dtype()}, {}, {y},
            [kernel = y.device().kernels().fill, dtype = y.dtype(), n = y.elements(), value,
             out = y.data()](void* queue) { kernel(dtype, n, value, out, queue); });
}

void copy(const Tensor& x, const Tensor& y) {
  EBB_CHECK(x.shape() == y.shape() && x.dtype() == y.dtype(), kInvalidArgument,
            "copy: the two differ in shape or dtype");
  if (y.elements() == 0) return;
  launch_op({.name = "copy", .dtype = x.dtype()}, {x}, {y},
            [kernel = x.device().kernels().copy_strided, dtype = x.dtype(),
             shape = x.shape(), from = x.data(), from_strides = x.strides(), to = y.data(),
             to_strides = y.strides()](void* queue) {
              kernel(dtype, static_cast<int>(shape.size()), shape.data(), from,
                     from_strides.data(), to, to_strides.data(), queue);
            });
}

void add_to(const Tensor& a, const Tensor& b, const Tensor& y) {
  if (y.elements() == 0) return;
  launch_op({.name = "add", .dtype = y.dtype(), .flops = static_cast<double>(y.elements())},
            {a, b}, {y},
            [kernel = y.device().kernels().add, dtype = y.dtype(), n = y.elements(),
             left = a.data(), right = b.data(),
             out = y.data()](void* queue) { kernel(dtype, n, left, right, out, queue); });
}

void scale_to(const Tensor& x, float factor, const Tensor& device_factor, const Tensor& y) {
  if (y.elements() == 0) return;
  const float* extra = device_factor.defined() ? device_factor.data_as<float>() : nullptr;
  launch_op(
      {.name = "scale", .dtype = y.dtype(), .flops = static_cast<double>(y.elements())},
      {x, device_factor}, {y},
      [kernel = y.device().kernels().scale, dtype = y.dtype(), n = y.elements(), factor,
       extra, in = x.data(),
       out = y.data()](void* queue) { kernel(dtype, n, in, factor, extra, out, queue); });
}

}  // namespace ebb::autograd
