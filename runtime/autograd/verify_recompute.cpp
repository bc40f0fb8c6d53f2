#include "runtime/autograd/verify_recompute.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "allocator/error.h"
#include "runtime/autograd/modes.h"
#include "runtime/autograd/primitive.h"

namespace ebb::autograd {
namespace {

using Values = std::array<float, 2>;

// Queues a probe that hands the tensor's checksum to `look`.
template <typename Look>
void probe(const Tensor& tensor, Look look) {
  launch_op(
      {.name = "verify_recompute", .dtype = tensor.dtype(), .probe = true}, {tensor}, {},
      [&kernels = tensor.device().kernels(), dtype = tensor.dtype(), n = tensor.elements(),
       x = tensor.data(), look = std::move(look)](void* queue) {
        Values values{};
        kernels.sum(dtype, n, x, 1, &values[0], queue);
        kernels.sum_of_squares(dtype, n, x, &values[1], queue);
        look(values);
      });
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
  const auto values = std::make_shared<Values>();
  probe(tensor, [values](const Values& now) { *values = now; });
  return {values};
}

void verify_checksum(const Checksum& first, const Tensor& tensor, const char* op) {
  if (first.values == nullptr) return;
  probe(tensor, [before = first.values, op](const Values& now) {
    // Bits, so that NaN equals NaN.
    EBB_CHECK(std::memcmp(before->data(), now.data(), sizeof(now)) == 0, kDataLoss,
              "a recompute made another tensor than the first run, first saved by ", op,
              ": sum ", now[0], " for ", (*before)[0], ", sum of squares ", now[1], " for ",
              (*before)[1]);
  });
}

}  // namespace ebb::autograd
