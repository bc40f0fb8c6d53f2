// Sums and products of tensors. Their backward is made of differentiable ops.

#include <utility>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/backward_call.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/ops/ops.h"
#include "runtime/autograd/primitive.h"
#include "runtime/tensor/launch.h"

namespace ebb::autograd {
namespace {

class AddNode final : public Node {
 public:
  AddNode() : Node("add") {}
  bool twice_differentiable() const noexcept override { return true; }
  void backward(BackwardCall& call) override {
    Tensor gradient = call.gradient();
    call.give(0, gradient);
    call.give(1, std::move(gradient));
  }
};

class MultiplyNode final : public Node {
 public:
  MultiplyNode() : Node("multiply") {}
  bool twice_differentiable() const noexcept override { return true; }
  void save_inputs(const Tensor& a, const Tensor& b) {
    if (needs(1)) save(a, 0);
    if (needs(0)) save(b, 1);
  }
  void backward(BackwardCall& call) override {
    const Tensor gradient = call.gradient();
    std::size_t next = 0;
    if (needs(1)) {
      const Tensor a = call.use(next++);
      if (call.needs(1)) call.give(1, multiply(gradient, a));
    }
    if (needs(0)) {
      const Tensor b = call.use(next);
      if (call.needs(0)) call.give(0, multiply(gradient, b));
    }
  }
};

class ScaleNode final : public Node {
 public:
  explicit ScaleNode(float factor) : Node("scale"), factor_(factor) {}
  bool twice_differentiable() const noexcept override { return true; }
  void backward(BackwardCall& call) override {
    call.give(0, scale(call.gradient(), factor_));
  }

 private:
  const float factor_;
};

class SumNode final : public Node {
 public:
  explicit SumNode(tensor::Shape shape) : Node("sum"), shape_(std::move(shape)) {}
  bool twice_differentiable() const noexcept override { return true; }
  void backward(BackwardCall& call) override {
    call.give(0, expand(view(call.gradient(), tensor::Shape(shape_.size(), 1)), shape_));
  }

 private:
  const tensor::Shape shape_;
};

void check_alike(const char* op, const Tensor& a, const Tensor& b) {
  EBB_CHECK(a.shape() == b.shape() && a.dtype() == b.dtype(), kInvalidArgument, op,
            ": the two differ in shape or dtype");
}

}  // namespace

Tensor add(const Tensor& a_any_layout, const Tensor& b_any_layout) {
  check_alike("add", a_any_layout, b_any_layout);
  const Tensor a = contiguous(a_any_layout);
  const Tensor b = contiguous(b_any_layout);
  const auto node = record<AddNode>({a, b});
  Tensor y = Tensor::empty(a.device(), a.shape(), a.dtype());
  add_to(a, b, y);
  return attach(node, std::move(y));
}

Tensor multiply(const Tensor& a_any_layout, const Tensor& b_any_layout) {
  check_alike("multiply", a_any_layout, b_any_layout);
  const Tensor a = contiguous(a_any_layout);
  const Tensor b = contiguous(b_any_layout);
  const auto node = record<MultiplyNode>({a, b});
  if (node) node->save_inputs(a, b);
  Tensor y = Tensor::empty(a.device(), a.shape(), a.dtype());
  if (y.elements() > 0) {
    launch_op({.name = "multiply",
               .dtype = y.dtype(),
               .flops = static_cast<double>(y.elements())},
              {a, b}, {y},
              [kernel = y.device().kernels().multiply, dtype = y.dtype(), n = y.elements(),
               left = a.data(), right = b.data(),
               out = y.data()](void* queue) { kernel(dtype, n, left, right, out, queue); });
  }
  return attach(node, std::move(y));
}

Tensor scale(const Tensor& x_any_layout, float factor) {
  const Tensor x = contiguous(x_any_layout);
  const auto node = record<ScaleNode>({x}, factor);
  Tensor y = Tensor::empty(x.device(), x.shape(), x.dtype());
  scale_to(x, factor, {}, y);
  return attach(node, std::move(y));
}

Tensor sum(const Tensor& x_any_layout) {
  const Tensor x = contiguous(x_any_layout);
  const auto node = record<SumNode>({x}, x.shape());
  Tensor y = Tensor::empty(x.device(), {1}, DType::kF32);
  launch_op({.name = "sum", .dtype = x.dtype(), .flops = static_cast<double>(x.elements())},
            {x}, {y},
            [kernel = x.device().kernels().sum, dtype = x.dtype(), n = x.elements(),
             in = x.data(), out = y.data_as<float>()](void* queue) {
              kernel(dtype, n, in, 1, out, queue);
            });
  return attach(node, std::move(y));
}

void add_in_place(const Tensor& a, const Tensor& b_any_layout) {
  check_alike("add_in_place", a, b_any_layout);
  EBB_CHECK(a.contiguous(), kInvalidArgument,
            "add_in_place: the tensor written to is not contiguous");
  const Tensor b = contiguous(b_any_layout);
  const auto node = record<AddNode>({a, b});
  if (node) {
    const Meta* meta = meta_of(a);
    EBB_CHECK(meta == nullptr || !meta->requires_grad, kInvalidArgument,
              "add_in_place: a leaf that needs a gradient cannot be written in place");
    EBB_CHECK(meta == nullptr || !meta->shares_storage, kInvalidArgument,
              "add_in_place: a view, or a tensor with views, cannot be written in place "
              "where gradients are recorded");
  }
  add_to(a, b, a);
  tensor::written_in_place(a);
  attach(node, a);
}

}  // namespace ebb::autograd
