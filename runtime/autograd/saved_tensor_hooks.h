// The seam between the tape and whoever moves what it saves.

#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

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
  // A segment could make the tensor again: PackResult::remade() is a possible answer.
  bool can_recompute = false;
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

class SavedTensorHooks;

// What hooks answer to a save: they took the tensor over; or null: the tape keeps the
// tensor itself; or, only where SaveSite::can_recompute: nobody saves it, it is to be made
// again.
struct PackResult {
  PackResult(std::nullptr_t) {}  // NOLINT(google-explicit-constructor): an answer.
  template <std::derived_from<PackedTensor> T>
  PackResult(std::unique_ptr<T> taken)  // NOLINT(google-explicit-constructor): an answer.
      : packed(std::move(taken)) {}
  static PackResult remade() {
    PackResult result(nullptr);
    result.recompute = true;
    return result;
  }

  std::unique_ptr<PackedTensor> packed;
  bool recompute = false;
  // Who took it over, if not the one that was asked: a segment passes saves on.
  SavedTensorHooks* by = nullptr;
};

// Pack on save, unpack on use. All calls come from the thread that runs the graph.
class SavedTensorHooks {
 public:
  virtual ~SavedTensorHooks() = default;

  // Takes `tensor` over, or does not: see PackResult. Called while the op that made the
  // tensor is the last one on its stream, or earlier. Never called for parameters,
  // undefined tensors, or what a recompute saves.
  virtual PackResult pack(const Tensor& tensor, const SaveSite& site) = 0;

  // `tensor` is not saved: a checkpointed segment makes it again, and nobody was asked. For
  // those who count.
  virtual void left_to_recompute(const Tensor& /*tensor*/, const SaveSite& /*site*/) {}

  // Backward of a graph begins, and will ask for these, in this order (as far as the tape
  // knows). Ends, also by an exception. Backward may run inside backward (a graph of its
  // own).
  virtual void begin_backward(std::span<PackedTensor* const> order_of_use) = 0;
  virtual void end_backward() noexcept = 0;
};

}  // namespace ebb::autograd
