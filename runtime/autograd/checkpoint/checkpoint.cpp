// Checkpointing, the non-reentrant kind (as in PyTorch's torch.utils.checkpoint): the
// segment's nodes stay, and what they save is made again where it was not kept.

#include <memory>
#include <utility>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/checkpoint/frame.h"

namespace ebb::autograd {

std::vector<Tensor> checkpoint(Segment segment, std::span<const Tensor> inputs,
                               Recompute recompute) {
  EBB_CHECK(segment != nullptr, kInvalidArgument, "checkpoint: no segment");
  if (!grad_enabled() || (recompute == Recompute::kAsNeeded && !Frame::of_use())) {
    return segment(inputs);
  }
  const auto frame = std::make_shared<Frame>(std::move(segment), inputs, recompute);
  return frame->run(inputs);
}

}  // namespace ebb::autograd
