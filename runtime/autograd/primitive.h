// Ops without gradients, and how ops are queued with the modes of the calling thread.

#pragma once

#include <initializer_list>
#include <optional>

#include "kernels/kernels.h"
#include "runtime/device/device.h"
#include "runtime/device/stream.h"
#include "runtime/tensor/tensor.h"

namespace ebb::autograd {

struct Op {
  const char* name = "";  // Static text.
  DType dtype = DType::kF32;
  double flops = 0;
  std::optional<double> bytes = {};  // None: each operand once, workspace aside.
  bool probe = false;
};

// tensor::launch() with phase and stage of the calling thread.
void launch_op(const Op& op, std::initializer_list<Tensor> reads,
               std::initializer_list<Tensor> writes, device::Body body);

// Of one product of these sizes: rows x in by in x out.
double flops(const LinearShape& shape);

// Memory for one op; undefined for 0 bytes.
Tensor workspace(device::Device& device, std::size_t bytes);
Workspace workspace_of(const Tensor& tensor);

// y = value; y = x, of any layouts of one shape; y = a + b, contiguous (y may be a or b);
// y = x * factor * device_factor[0] (y may be x; device_factor may be undefined).
void fill(const Tensor& y, float value);
void copy(const Tensor& x, const Tensor& y);
void add_to(const Tensor& a, const Tensor& b, const Tensor& y);
void scale_to(const Tensor& x, float factor, const Tensor& device_factor, const Tensor& y);

}  // namespace ebb::autograd
