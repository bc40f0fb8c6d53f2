// What tells a saved tensor that its bytes were written over.

#pragma once

#include <cstdint>
#include <memory>

#include "runtime/tensor/tensor.h"

namespace ebb::tensor {

// The version of a tensor's storage when it was saved for a backward. Keeps no storage: it
// outlives the bytes, which may be somewhere else meanwhile. One thread at a time.
class SavedVersion {
 public:
  SavedVersion() = default;  // Of nothing: nobody can write to it.
  // As it is now; of an undefined tensor: of nothing.
  explicit SavedVersion(const Tensor& tensor);

  // Throws Error{kFailedPrecondition}, which names `op`, the one that saved the tensor, if
  // the storage was written in place since.
  void check(const char* op) const;

 private:
  std::shared_ptr<const Version> version_;  // Null: of nothing.
  std::uint64_t saved_ = 0;
};

}  // namespace ebb::tensor
