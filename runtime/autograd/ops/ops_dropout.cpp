// Dropout and the residual that it is added to.

#include <utility>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/backward_call.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/ops/ops.h"
#include "runtime/autograd/primitive.h"

namespace ebb::autograd {
namespace {

// Saves nothing: the mask is drawn again.
class DropoutNode final : public Node {
 public:
  DropoutNode(const DropoutShape& shape, const Dropout& dropout)
      : Node("dropout_add"), shape_(shape), dropout_(dropout) {}

  void backward(BackwardCall& call) override {
    Tensor dy = call.gradient();
    if (call.needs(0)) {
      Tensor dx = Tensor::empty(dy.device(), dy.shape(), dy.dtype());
      launch_op({.name = "dropout.backward",
                 .dtype = dy.dtype(),
                 .flops = static_cast<double>(dy.elements())},
                {dy}, {dx},
                [kernel = dy.device().kernels().dropout_backward, shape = shape_,
                 dropout = dropout_, grad = dy.data(), out = dx.data()](void* queue) {
                  kernel(shape, dropout, grad, out, queue);
                });
      call.give(0, std::move(dx));
    }
    call.give(1, std::move(dy));
  }

 private:
  const DropoutShape shape_;
  const Dropout dropout_;
};

}  // namespace

Tensor dropout_add(const Tensor& x_any_layout, const Tensor& residual_any_layout,
                   float probability) {
  EBB_CHECK(probability >= 0 && probability < 1, kInvalidArgument,
            "dropout_add: a dropout probability of ", probability, " is not in [0, 1)");
  if (!training() || probability == 0) {
    return residual_any_layout.defined() ? add(x_any_layout, residual_any_layout)
                                         : x_any_layout;
  }
  const Tensor x = contiguous(x_any_layout);
  EBB_CHECK(x.dimensions() >= 1, kInvalidArgument, "dropout_add: x is [batch, ...]");
  Tensor residual;
  if (residual_any_layout.defined()) {
    residual = contiguous(residual_any_layout);
    EBB_CHECK(residual.shape() == x.shape() && residual.dtype() == x.dtype(),
              kInvalidArgument, "dropout_add: x and residual differ in shape or dtype");
  }
  const std::int64_t samples = x.size(0);
  const DropoutShape s{x.dtype(), samples, samples == 0 ? 0 : x.elements() / samples};
  const Dropout dropout{probability, next_random()};
  const auto node = record<DropoutNode>({x, residual}, s, dropout);
  Tensor y = Tensor::empty(x.device(), x.shape(), x.dtype());
  launch_op({.name = "dropout.forward",
             .dtype = s.dtype,
             .flops = 2.0 * static_cast<double>(x.elements())},
            {x, residual}, {y},
            [kernel = x.device().kernels().dropout_forward, s, dropout, in = x.data(),
             other = residual.defined() ? residual.data() : nullptr,
             out = y.data()](void* queue) { kernel(s, dropout, in, other, out, queue); });
  return attach(node, std::move(y));
}

}  // namespace ebb::autograd
