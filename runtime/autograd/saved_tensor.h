// A tensor that a node keeps for its backward, itself or in the hands of hooks.

#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"

#include "runtime/autograd/saved_tensor_hooks.h"
#include "runtime/tensor/saved_version.h"
#include "runtime/tensor/tensor.h"

namespace ebb::autograd {

// For each hooks object, what a backward will ask of it, in order.
struct UseOrder {
  std::vector<std::pair<SavedTensorHooks*, std::vector<PackedTensor*>>> by_hooks;
  absl::flat_hash_set<const void*> segments;  // Whose inputs are in it already.

  void add(SavedTensorHooks* hooks, PackedTensor* packed);
};

// A packed tensor that a checkpointed segment makes again.
class RemadeTensor : public PackedTensor {
 public:
  // What remaking it will ask of hooks.
  virtual void add_to(UseOrder& order) = 0;
};

// Keeps no AutogradMeta, so a node may save its own output without a cycle.
class SavedTensor {
 public:
  SavedTensor() = default;
  // Through the hooks of the calling thread, unless they must not have it. A checkpoint may
  // stop a recompute from here.
  SavedTensor(const Tensor& tensor, const SaveSite& site);

  // The tensor as it was saved. With `keep` it may be asked for again; else the saved
  // tensor is given up. Error{kFailedPrecondition} if its bytes were written since.
  Tensor use(bool keep);
  // Backward is over with it for now.
  void used() noexcept;
  void release() noexcept;

  void add_to(UseOrder& order) const;

 private:
  const char* op_ = "";
  Tensor kept_;
  std::unique_ptr<PackedTensor> packed_;
  RemadeTensor* remade_ = nullptr;     // packed_, if it is one.
  SavedTensorHooks* hooks_ = nullptr;  // Of packed_.
  tensor::SavedVersion version_;
};

}  // namespace ebb::autograd
