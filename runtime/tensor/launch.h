// Queues ops over tensors: declares what they touch, keeps storages alive until they end,
// and counts in-place writes.

#pragma once

#include <span>

#include "runtime/device/stream.h"
#include "runtime/tensor/tensor.h"

namespace ebb::tensor {

// Queues `body` on the current stream of the tensors' device. Undefined tensors in the
// lists are passed over. The storages know the op as a user; those in `writes` do not get a
// new version (see written_in_place). `info.accesses` is filled here. The body must hold
// raw pointers, not tensors: a tensor that goes gives its memory back in stream order.
// Whoever changes a device's current stream orders the new one behind the work that made
// the tensors it will use. Error{kInvalidArgument} for tensors of different devices, or
// none.
Event launch(device::OpInfo info, std::span<const Tensor> reads,
             std::span<const Tensor> writes, device::Body body);
Event launch(device::OpInfo info, std::initializer_list<Tensor> reads,
             std::initializer_list<Tensor> writes, device::Body body);

// Raises the version of the tensor's storage: whoever saved it before will be told.
void written_in_place(const Tensor& tensor);

// Blocking copies for tests, set-up and results: to and from ordinary host memory,
// contiguous, in the tensor's dtype, on the current stream. A copy from the host is an
// in-place write. On a dry device no byte moves and `host` is not touched. Throw the
// stream's first failure.
void copy_from_host(const Tensor& tensor, const void* host);
void copy_to_host(const Tensor& tensor, void* host);

}  // namespace ebb::tensor
