#include "runtime/autograd/backward_call.h"

#include <algorithm>
#include <utility>

#include "runtime/autograd/ops/ops.h"
#include "runtime/autograd/primitive.h"
#include "runtime/tensor/launch.h"

namespace ebb::autograd {

Tensor BackwardCall::gradient(std::size_t output) {
  Tensor gradient = std::exchange(gradients_[output], {});
  if (!gradient.defined() || gradient.contiguous()) return gradient;
  return contiguous(gradient);
}

void BackwardCall::give(std::size_t input, Tensor gradient) {
  const Edge& edge = node_.edges()[input];
  if (gradient.defined() && sink_.wants(edge)) sink_.add(edge, std::move(gradient));
}

Destination BackwardCall::open(std::size_t input, device::Device& device,
                               const tensor::Shape& shape, DType dtype) {
  const Edge& edge = node_.edges()[input];
  if (!sink_.wants(edge)) return {};
  // A leaf that is two inputs of one op is written by one of them, and gets the other's
  // gradient afterwards.
  const bool twice = std::any_of(open_.begin(), open_.end(), [&](const Tensor& leaf) {
    return edge.leaf.defined() && leaf.autograd_meta() == edge.leaf.autograd_meta();
  });
  Destination destination;
  if (!twice) destination = sink_.open(edge);
  if (destination.direct) {
    open_.push_back(edge.leaf);
  } else {
    destination.tensor = Tensor::empty(device, shape, dtype);
  }
  return destination;
}

void BackwardCall::close(std::size_t input, const Destination& destination) {
  if (!destination.tensor.defined()) return;
  const Edge& edge = node_.edges()[input];
  if (destination.direct) {
    tensor::written_in_place(destination.tensor);
    sink_.close(edge, destination);
  } else {
    sink_.add(edge, destination.tensor);
  }
}

void make_additive(Destination& destination) {
  if (!destination.tensor.defined() || destination.into == Into::kAdd) return;
  fill(destination.tensor, 0);
  destination.into = Into::kAdd;
}

void make_alike(Destination& a, Destination& b) {
  if (!a.tensor.defined() || !b.tensor.defined() || a.into == b.into) return;
  make_additive(a);
  make_additive(b);
}

}  // namespace ebb::autograd
