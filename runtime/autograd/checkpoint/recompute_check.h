// Compares what a recompute makes with what the segment made first, op by op and by value.
//
// All looks are probes: they have their place in the order of the stream, and change
// neither the clock nor a byte of the device.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace ebb::autograd {

// Of one segment. Told of each output, in order, when the segment runs first, and again
// from begin_again() on.
class RecomputeCheck {
 public:
  // What an output number says of tensors that are none.
  static constexpr std::int32_t kSaved = -1;  // Only saved: statistics and the like.

  // Takes every n-th checksum, as the modes say. `outer` is that of the segment around this
  // one, which makes all of its outputs again too; null: none.
  explicit RecomputeCheck(RecomputeCheck* outer) : outer_(outer) {}

  // An op made `tensor`. In a recompute: throws Error{kFailedPrecondition} if the segment
  // made it by another op the first time; and if its bytes are others, the stream fails
  // with Error{kDataLoss}, which names the op, and the next synchronising call throws it.
  // Checksums are taken of contiguous tensors, and not on a dry device, where there is
  // nothing to compare.
  void made(const char* op, std::int32_t stage, std::int32_t output, const Tensor& tensor);
  // The same for an input of the segment, which comes back from where it was saved.
  void given(std::int32_t stage, std::int32_t input, const Tensor& tensor);

  void begin_again() noexcept;

 private:
  struct Output {
    const char* op;  // Null: an input of the segment.
    std::int32_t stage;
    std::int32_t number;
    std::shared_ptr<std::uint64_t> checksum;  // Once the probe has run. Null: not taken.
  };
  void see(const Output& output, const Tensor& tensor);
  void compare(const Output& output, const Tensor& tensor);

  RecomputeCheck* outer_;
  std::vector<Output> outputs_;
  bool again_ = false;
  std::size_t next_ = 0;  // In a recompute.
};

}  // namespace ebb::autograd
