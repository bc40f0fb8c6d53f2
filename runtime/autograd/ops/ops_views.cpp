// Views, and what their gradients need: padding (of a slice) and summing (of an expanded
// tensor), each the other's backward. All can be differentiated again.

#include <utility>

#include "allocator/error.h"
#include "runtime/autograd/backward_call.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/ops/ops.h"
#include "runtime/autograd/primitive.h"

namespace ebb::autograd {
namespace {

Tensor pad(const Tensor& x, const tensor::Shape& shape, int dimension, std::int64_t begin);
Tensor sum_to(const Tensor& x, const tensor::Shape& shape);

class ViewNode : public Node {
 public:
  using Node::Node;
  bool twice_differentiable() const noexcept override { return true; }
};

class ReshapeNode final : public ViewNode {
 public:
  explicit ReshapeNode(tensor::Shape shape) : ViewNode("view"), shape_(std::move(shape)) {}
  void backward(BackwardCall& call) override {
    call.give(0, view(call.gradient(), shape_));
  }

 private:
  const tensor::Shape shape_;
};

class TransposeNode final : public ViewNode {
 public:
  TransposeNode(int a, int b) : ViewNode("transpose"), a_(a), b_(b) {}
  void backward(BackwardCall& call) override {
    call.give(0, transpose(call.gradient(), a_, b_));
  }

 private:
  const int a_;
  const int b_;
};

class SliceNode final : public ViewNode {
 public:
  SliceNode(tensor::Shape shape, int dimension, std::int64_t begin)
      : ViewNode("slice"), shape_(std::move(shape)), dimension_(dimension), begin_(begin) {}
  void backward(BackwardCall& call) override {
    call.give(0, pad(call.gradient(), shape_, dimension_, begin_));
  }

 private:
  const tensor::Shape shape_;
  const int dimension_;
  const std::int64_t begin_;
};

class PadNode final : public ViewNode {
 public:
  PadNode(int dimension, std::int64_t begin, std::int64_t end)
      : ViewNode("pad"), dimension_(dimension), begin_(begin), end_(end) {}
  void backward(BackwardCall& call) override {
    call.give(0, slice(call.gradient(), dimension_, begin_, end_));
  }

 private:
  const int dimension_;
  const std::int64_t begin_;
  const std::int64_t end_;
};

class ExpandNode final : public ViewNode {
 public:
  explicit ExpandNode(tensor::Shape shape) : ViewNode("expand"), shape_(std::move(shape)) {}
  void backward(BackwardCall& call) override {
    call.give(0, sum_to(call.gradient(), shape_));
  }

 private:
  const tensor::Shape shape_;
};

class SumToNode final : public ViewNode {
 public:
  explicit SumToNode(tensor::Shape shape) : ViewNode("sum_to"), shape_(std::move(shape)) {}
  void backward(BackwardCall& call) override {
    call.give(0, expand(call.gradient(), shape_));
  }

 private:
  const tensor::Shape shape_;
};

class ContiguousNode final : public ViewNode {
 public:
  ContiguousNode() : ViewNode("contiguous") {}
  void backward(BackwardCall& call) override { call.give(0, call.gradient()); }
};

// Marks both ends of a recorded view: neither may be written in place from now on.
Tensor attach_view(std::shared_ptr<Node> node, const Tensor& base, Tensor result) {
  if (!node) return result;
  make_meta(base).shares_storage = true;
  make_meta(result).shares_storage = true;
  return attach(std::move(node), std::move(result));
}

Tensor pad(const Tensor& x, const tensor::Shape& shape, int dimension, std::int64_t begin) {
  const std::int64_t end = begin + x.size(dimension);
  const auto node = record<PadNode>({x}, dimension, begin, end);
  Tensor y = Tensor::empty(x.device(), shape, x.dtype());
  fill(y, 0);
  copy(x, y.slice(dimension, begin, end));
  return attach(node, std::move(y));
}

// Sums over the dimensions that an expand() from `shape` added or stretched.
Tensor sum_to(const Tensor& x, const tensor::Shape& shape) {
  const auto node = record<SumToNode>({x}, x.shape());
  const auto added = x.shape().size() - shape.size();
  tensor::Shape order_shape;  // The summed dimensions first.
  tensor::Shape order_strides;
  std::int64_t summed = 1;
  for (const bool pick_summed : {true, false}) {
    for (std::size_t i = 0; i < x.shape().size(); ++i) {
      const bool is_summed = i < added || shape[i - added] != x.shape()[i];
      if (is_summed != pick_summed) continue;
      order_shape.push_back(x.shape()[i]);
      order_strides.push_back(x.strides()[i]);
      if (is_summed) summed *= x.shape()[i];
    }
  }
  Tensor y = Tensor::empty(x.device(), shape, x.dtype());
  if (summed == 0 || y.elements() == 0) {
    fill(y, 0);
    return attach(node, std::move(y));
  }
  // y[1, kept] = ones[1, summed] matrix[summed, kept]: the table's matrix product adds in a
  // fixed order.
  Tensor matrix =
      Tensor::over(x.storage(), order_shape, order_strides, x.dtype(), x.offset());
  if (!matrix.contiguous()) {
    const Tensor packed = Tensor::empty(x.device(), order_shape, x.dtype());
    copy(matrix, packed);
    matrix = packed;
  }
  const Tensor ones = Tensor::empty(x.device(), {summed}, x.dtype());
  fill(ones, 1);
  const LinearShape s{x.dtype(), 1, y.elements(), summed};
  const Kernels& kernels = x.device().kernels();
  const Tensor scratch = workspace(x.device(), kernels.linear_backward_input_workspace(s));
  launch_op({.name = "sum_to",
             .dtype = x.dtype(),
             .flops = 2.0 * static_cast<double>(x.elements())},
            {ones, matrix}, {y, scratch},
            [&kernels, s, one = ones.data(), in = matrix.data(), out = y.data(),
             work = workspace_of(scratch)](void* queue) {
              kernels.linear_backward_input(s, one, in, out, work, queue);
            });
  return attach(node, std::move(y));
}

}  // namespace

Tensor view(const Tensor& x, tensor::Shape shape) {
  const auto node = record<ReshapeNode>({x}, x.shape());
  return attach_view(node, x, x.view(std::move(shape)));
}

Tensor transpose(const Tensor& x, int a, int b) {
  const auto node = record<TransposeNode>({x}, a, b);
  return attach_view(node, x, x.transpose(a, b));
}

Tensor slice(const Tensor& x, int dimension, std::int64_t begin, std::int64_t end) {
  const auto node = record<SliceNode>({x}, x.shape(), dimension, begin);
  return attach_view(node, x, x.slice(dimension, begin, end));
}

Tensor expand(const Tensor& x, tensor::Shape shape) {
  const auto node = record<ExpandNode>({x}, x.shape());
  return attach_view(node, x, x.expand(std::move(shape)));
}

Tensor contiguous(const Tensor& x) {
  if (x.contiguous()) return x;
  const auto node = record<ContiguousNode>({x});
  Tensor y = Tensor::empty(x.device(), x.shape(), x.dtype());
  copy(x, y);
  return attach(node, std::move(y));
}

}  // namespace ebb::autograd
