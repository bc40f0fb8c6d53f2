// Leaves of graphs: who needs a gradient, and where it is.

#include <utility>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/node.h"

namespace ebb::autograd {

bool requires_grad(const Tensor& tensor) noexcept {
  const Meta* meta = meta_of(tensor);
  return meta != nullptr && (meta->requires_grad || meta->node != nullptr);
}

void set_requires_grad(const Tensor& leaf, bool on) {
  EBB_CHECK(is_floating(leaf.dtype()), kInvalidArgument, "a tensor of ", name(leaf.dtype()),
            " has no gradient");
  Meta& meta = make_meta(leaf);
  EBB_CHECK(meta.node == nullptr, kFailedPrecondition, "the result of ", meta.node->name(),
            " is no leaf: detach() it to cut it off its graph");
  meta.requires_grad = on;
}

Tensor gradient(const Tensor& leaf) {
  const Meta* meta = meta_of(leaf);
  return meta == nullptr ? Tensor() : meta->gradient;
}

void set_gradient(const Tensor& leaf, Tensor gradient) {
  if (gradient.defined()) {
    EBB_CHECK(gradient.shape() == leaf.shape() && gradient.dtype() == leaf.dtype() &&
                  gradient.contiguous(),
              kInvalidArgument,
              "a gradient is contiguous, and has its leaf's shape and dtype");
  }
  make_meta(leaf).gradient = std::move(gradient);
}

void overwrite_gradient(const Tensor& leaf) { make_meta(leaf).overwrite = true; }

Tensor detach(const Tensor& tensor) { return tensor.alias(); }

}  // namespace ebb::autograd
