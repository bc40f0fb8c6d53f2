// Linear layers and GELU.

#include <utility>

#include "allocator/error.h"
#include "runtime/autograd/backward_call.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/ops/ops.h"
#include "runtime/autograd/primitive.h"

namespace ebb::autograd {
namespace {

LinearShape check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  EBB_CHECK(x.dimensions() >= 1 && weight.dimensions() == 2 && weight.contiguous() &&
                weight.size(1) == x.size(-1) && weight.dtype() == x.dtype(),
            kInvalidArgument,
            "linear: x[..., in] goes with a contiguous weight[out, in] of its dtype");
  EBB_CHECK(
      !bias.defined() || (bias.dimensions() == 1 && bias.contiguous() &&
                          bias.size(0) == weight.size(0) && bias.dtype() == x.dtype()),
      kInvalidArgument, "linear: the bias is [out] and of x's dtype");
  const std::int64_t in = weight.size(1);
  return {x.dtype(), in == 0 ? 0 : x.elements() / in, in, weight.size(0)};
}

Tensor forward(const LinearShape& s, const Tensor& x, const Tensor& weight,
               const Tensor& bias, bool gelu) {
  tensor::Shape shape = x.shape();
  shape.back() = s.out;
  Tensor y = Tensor::empty(x.device(), std::move(shape), s.dtype);
  const Kernels& kernels = x.device().kernels();
  const Tensor scratch = workspace(x.device(), kernels.linear_forward_workspace(s));
  launch_op({.name = gelu ? "linear_gelu.forward" : "linear.forward",
             .dtype = s.dtype,
             .flops = flops(s)},
            {x, weight, bias}, {y, scratch},
            [&kernels, s, gelu, in = x.data(), w = weight.data(),
             b = bias.defined() ? bias.data() : nullptr, out = y.data(),
             work = workspace_of(scratch)](void* queue) {
              kernels.linear_forward(s, in, w, b, gelu, out, work, queue);
            });
  return y;
}

void backward_weight(const LinearShape& s, const Tensor& x, const Tensor& dy,
                     const Destination& dw, const Destination& db) {
  const Kernels& kernels = x.device().kernels();
  const Tensor scratch = workspace(x.device(), kernels.linear_backward_weight_workspace(s));
  const bool add = dw.into == Into::kAdd;
  launch_op({.name = "linear.backward_weight", .dtype = s.dtype, .flops = flops(s)},
            {x, dy, add ? dw.tensor : Tensor(), add ? db.tensor : Tensor()},
            {dw.tensor, db.tensor, scratch},
            [&kernels, s, in = x.data(), grad = dy.data(), into = dw.into, w = dw.data(),
             b = db.data(), work = workspace_of(scratch)](void* queue) {
              kernels.linear_backward_weight(s, in, grad, into, w, b, work, queue);
            });
}

Tensor backward_input(const LinearShape& s, const Tensor& dy, const Tensor& weight,
                      const tensor::Shape& shape) {
  Tensor dx = Tensor::empty(dy.device(), shape, s.dtype);
  const Kernels& kernels = dy.device().kernels();
  const Tensor scratch = workspace(dy.device(), kernels.linear_backward_input_workspace(s));
  launch_op({.name = "linear.backward_input", .dtype = s.dtype, .flops = flops(s)},
            {dy, weight}, {dx, scratch},
            [&kernels, s, grad = dy.data(), w = weight.data(), out = dx.data(),
             work = workspace_of(scratch)](void* queue) {
              kernels.linear_backward_input(s, grad, w, out, work, queue);
            });
  return dx;
}

class LinearNode final : public Node {
 public:
  LinearNode(const LinearShape& shape, tensor::Shape x_shape)
      : Node("linear"), shape_(shape), x_shape_(std::move(x_shape)) {}

  void save_inputs(const Tensor& x, const Tensor& weight) {
    if (needs(1) || needs(2)) save(x, 0);
    if (needs(0)) save(weight, 1);
  }

  void backward(BackwardCall& call) override {
    const Tensor dy = call.gradient();
    std::size_t next = 0;
    // The weight's gradient first: x is given up before memory is asked for dx.
    if (needs(1) || needs(2)) {
      const Tensor x = call.use(next++);
      if (call.needs(1) || call.needs(2)) weight_gradient(call, x, dy);
    }
    if (needs(0)) {
      const Tensor weight = call.use(next);
      if (call.needs(0)) call.give(0, backward_input(shape_, dy, weight, x_shape_));
    }
  }

 private:
  void weight_gradient(BackwardCall& call, const Tensor& x, const Tensor& dy) {
    Destination dw = call.open(1, x.device(), {shape_.out, shape_.in}, shape_.dtype);
    Destination db = call.open(2, x.device(), {shape_.out}, shape_.dtype);
    // The kernel makes both; a weight without a gradient gets one that is thrown away.
    Destination thrown_away;
    if (!dw.tensor.defined()) {
      thrown_away.tensor = Tensor::empty(x.device(), {shape_.out, shape_.in}, shape_.dtype);
    }
    Destination& weight = dw.tensor.defined() ? dw : thrown_away;
    make_alike(weight, db);
    backward_weight(shape_, x, dy, weight, db);
    call.close(1, dw);
    call.close(2, db);
  }

  const LinearShape shape_;
  const tensor::Shape x_shape_;
};

class GeluNode final : public Node {
 public:
  GeluNode() : Node("gelu") {}

  void backward(BackwardCall& call) override {
    const Tensor dy = call.gradient();
    const Tensor x = call.use(0);
    const Tensor dx = dy.unique() ? dy : Tensor::empty(dy.device(), dy.shape(), dy.dtype());
    launch_op({.name = "gelu.backward",
               .dtype = x.dtype(),
               .flops = 16.0 * static_cast<double>(x.elements())},
              {x, dy}, {dx},
              [kernel = x.device().kernels().gelu_backward, dtype = x.dtype(),
               n = x.elements(), in = x.data(), grad = dy.data(),
               out = dx.data()](void* queue) { kernel(dtype, n, in, grad, out, queue); });
    call.give(0, dx);
  }
};

}  // namespace

Tensor linear(const Tensor& x_any_layout, const Tensor& weight, const Tensor& bias) {
  const LinearShape s = check_linear(x_any_layout, weight, bias);
  const Tensor x = contiguous(x_any_layout);
  const auto node = record<LinearNode>({x, weight, bias}, s, x.shape());
  if (node) node->save_inputs(x, weight);
  return attach(node, forward(s, x, weight, bias, /*gelu=*/false));
}

Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor inputs[] = {x, weight, bias};
  if (recorded(inputs)) return gelu(linear(x, weight, bias));
  const LinearShape s = check_linear(x, weight, bias);
  return forward(s, contiguous(x), weight, bias, /*gelu=*/true);
}

Tensor gelu(const Tensor& x_any_layout) {
  const Tensor x = contiguous(x_any_layout);
  const auto node = record<GeluNode>({x});
  if (node) node->save(x, 0);
  Tensor y = Tensor::empty(x.device(), x.shape(), x.dtype());
  launch_op(
      {.name = "gelu.forward",
       .dtype = x.dtype(),
       .flops = 8.0 * static_cast<double>(x.elements())},
      {x}, {y},
      [kernel = x.device().kernels().gelu_forward, dtype = x.dtype(), n = x.elements(),
       in = x.data(), out = y.data()](void* queue) { kernel(dtype, n, in, out, queue); });
  return attach(node, std::move(y));
}

}  // namespace ebb::autograd
