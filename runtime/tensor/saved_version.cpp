#include "runtime/tensor/saved_version.h"

#include "allocator/error.h"

namespace ebb::tensor {

SavedVersion::SavedVersion(const Tensor& tensor) {
  if (!tensor.defined()) return;
  version_ = tensor.storage()->version();
  saved_ = version_->value.load(std::memory_order_relaxed);
}

void SavedVersion::check(const char* op) const {
  if (version_ == nullptr) return;
  const std::uint64_t now = version_->value.load(std::memory_order_relaxed);
  EBB_CHECK(now == saved_, kFailedPrecondition, "a tensor that ", op,
            " saved for backward was written in place since: it is at version ", now,
            ", and was saved at version ", saved_,
            "; save a copy, or write after backward");
}

}  // namespace ebb::tensor
