// The seam between the tape and whoever moves what it saves.

#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "runtime/tensor/tensor.h"

namespace ebb::autograd {

// Where a tensor is saved.
struct SaveSite {
  enum class Kind : std::uint8_t {
    kSavedTensor,      // By a node, for its backward.
    kCheckpointInput,  // By autograd::checkpoint, for its recompute.
  };

  Kind kind = Kind::kSavedTensor;
  const char* op = "";      // The op whose backward needs it: static text.
  std::int32_t stage = -1;  // The layer it belongs to, if any.
};

// A saved tensor in the hands of hooks; owned by the graph. When it is destroyed, the graph
// is over with it: ended, or dropped without a backward.
class PackedTensor {
 public:
  virtual ~PackedTensor() = default;

  // The tensor, as it was: dtype, shape, strides, offset, bytes, and of purpose
  // kActivations. May be called again (retain_graph). Throws Error.
  virtual Tensor unpack() = 0;

  // Backward needs it no more, though the graph may live on; unpack() may still come, at a
  // price.
  virtual void used() noexcept = 0;
};

// Pack on save, unpack on use. All calls come from the thread that runs the graph.
class SavedTensorHooks {
 public:
  virtual ~SavedTensorHooks() = default;

  // Takes `tensor` over, or returns null: the tape then keeps the tensor itself. Called
  // while the op that made the tensor is the last one on its stream, or earlier. Never
  // called for parameters, undefined tensors, or what a recompute saves.
  virtual std::unique_ptr<PackedTensor> pack(const Tensor& tensor,
                                             const SaveSite& site) = 0;

  // `tensor` is not saved: a checkpointed segment makes it again. For those who count.
  virtual void left_to_recompute(const Tensor& /*tensor*/, const SaveSite& /*site*/) {}

  // Backward of a graph begins, and will ask for these, in this order (as far as the tape
  // knows). Ends, also by an exception. Backward may run inside backward (a graph of its
  // own).
  virtual void begin_backward(std::span<PackedTensor* const> order_of_use) = 0;
  virtual void end_backward() noexcept = 0;
};

}  // namespace ebb::autograd
