#include "runtime/autograd/verify_recompute.h"

#include <array>
#include <cstring>

#include "allocator/error.h"
#include "runtime/autograd/modes.h"
#include "runtime/autograd/primitive.h"
#include "runtime/tensor/launch.h"

namespace ebb::autograd {
namespace {

Checksum checksum(const Tensor& tensor) {
  Tensor values = Tensor::empty(tensor.device(), {2}, DType::kF32, Purpose::kWorkspace);
  launch_op(
      {.name = "verify_recompute", .dtype = tensor.dtype(), .probe = true}, {tensor},
      {values},
      [&kernels = tensor.device().kernels(), dtype = tensor.dtype(), n = tensor.elements(),
       x = tensor.data(), out = values.data_as<float>()](void* queue) {
        kernels.sum(dtype, n, x, 1, out, queue);
        kernels.sum_of_squares(dtype, n, x, out + 1, queue);
      });
  return {values};
}

}  // namespace

Checksum checksum_if_due(const Tensor& tensor) {
  Modes& m = modes();
  if (m.verify_recompute <= 0) return {};
  const bool due = m.verify_count++ % static_cast<std::uint64_t>(m.verify_recompute) == 0;
  if (!due || !is_floating(tensor.dtype()) || !tensor.contiguous() ||
      tensor.device().capability().dry) {
    return {};
  }
  return checksum(tensor);
}

void verify_checksum(const Checksum& first, const Tensor& tensor, const char* op) {
  if (!first.values.defined()) return;
  std::array<float, 2> before{};
  std::array<float, 2> now{};
  tensor::copy_to_host(first.values, before.data());
  tensor::copy_to_host(checksum(tensor).values, now.data());
  // Bits, so that NaN equals NaN.
  EBB_CHECK(std::memcmp(before.data(), now.data(), sizeof(now)) == 0, kDataLoss,
            "a recompute made another tensor than the first run, first saved by ", op,
            ": sum ", now[0], " for ", before[0], ", sum of squares ", now[1], " for ",
            before[1]);
}

}  // namespace ebb::autograd
