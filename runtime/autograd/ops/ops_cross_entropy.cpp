// The output head and its loss in one op, so that the logits of the batch are held once.
//
// Rows go in chunks whose size follows from the shape alone. Forward turns each chunk of
// logits into its gradient in place, not yet divided by the number of targets that count:
// that number is the device's to find. It is a factor of backward instead, together with
// the gradient of the loss, and is applied where the operands are narrow: dx after, and x
// before, the products with the wide chunk.

#include <algorithm>
#include <utility>
#include <vector>

#include "allocator/error.h"
#include "runtime/autograd/backward_call.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/ops/ops.h"
#include "runtime/autograd/primitive.h"

namespace ebb::autograd {
namespace {

constexpr std::int64_t kChunkBytes = std::int64_t{256} << 20;

struct HeadShape {
  DType dtype = DType::kF32;
  std::int64_t rows = 0;
  std::int64_t hidden = 0;
  std::int64_t vocabulary = 0;

  std::int64_t chunk_rows() const {
    const auto row_bytes = vocabulary * static_cast<std::int64_t>(size_of(dtype));
    return std::max<std::int64_t>(1, kChunkBytes / row_bytes);
  }
  std::int64_t chunks() const { return (rows + chunk_rows() - 1) / chunk_rows(); }
  std::int64_t first_row(std::int64_t chunk) const { return chunk * chunk_rows(); }
  LinearShape linear(std::int64_t chunk) const {
    return {dtype, std::min(chunk_rows(), rows - first_row(chunk)), hidden, vocabulary};
  }
};

Tensor rows_of(const Tensor& matrix, const HeadShape& s, std::int64_t chunk) {
  const std::int64_t first = s.first_row(chunk);
  return matrix.slice(0, first, first + s.linear(chunk).rows);
}

// logits[rows of the chunk, vocabulary] = x weight^T
Tensor chunk_logits(const HeadShape& head, std::int64_t chunk, const Tensor& x,
                    const Tensor& weight) {
  const LinearShape s = head.linear(chunk);
  Tensor logits = Tensor::empty(x.device(), {s.rows, s.out}, s.dtype);
  const Tensor part = rows_of(x, head, chunk);
  const Kernels& kernels = x.device().kernels();
  const Tensor scratch = workspace(x.device(), kernels.linear_forward_workspace(s));
  launch_op({.name = "linear_cross_entropy.logits", .dtype = s.dtype, .flops = flops(s)},
            {part, weight}, {logits, scratch},
            [&kernels, s, in = part.data(), w = weight.data(), out = logits.data(),
             work = workspace_of(scratch)](void* queue) {
              kernels.linear_forward(s, in, w, nullptr, false, out, work, queue);
            });
  return logits;
}

// Adds the rows' losses; with `gradient`, logits become their gradient.
void chunk_loss(const Tensor& logits, const Tensor& targets, const Tensor& losses,
                bool gradient) {
  const CrossEntropyShape s{logits.dtype(), logits.size(0), logits.size(1)};
  launch_op({.name = "linear_cross_entropy.loss",
             .dtype = s.dtype,
             .flops = 8.0 * static_cast<double>(logits.elements())},
            {logits, targets, losses}, {gradient ? logits : Tensor(), losses},
            [kernel = logits.device().kernels().cross_entropy, s, in = logits.data(),
             ids = targets.data_as<std::int32_t>(), out = losses.data_as<float>(),
             gradient](void* queue) { kernel(s, in, ids, out, gradient, 1, queue); });
}

// 1 / the number of targets that count: f32 [1].
Tensor mean_factor(const Tensor& targets) {
  Tensor factor = Tensor::empty(targets.device(), {1}, DType::kF32);
  launch_op({.name = "mean_factor"}, {targets}, {factor},
            [kernel = targets.device().kernels().mean_factor, n = targets.elements(),
             ids = targets.data_as<std::int32_t>(),
             out = factor.data_as<float>()](void* queue) { kernel(n, ids, out, queue); });
  return factor;
}

Tensor mean(const Tensor& losses, const Tensor& factor) {
  Tensor loss = Tensor::empty(losses.device(), {1}, DType::kF32);
  launch_op({.name = "sum", .flops = static_cast<double>(losses.elements())}, {losses},
            {loss},
            [kernel = losses.device().kernels().sum, n = losses.elements(),
             in = losses.data(), out = loss.data_as<float>()](void* queue) {
              kernel(DType::kF32, n, in, 1, out, queue);
            });
  scale_to(loss, 1, factor, loss);
  return loss;
}

class HeadNode final : public Node {
 public:
  HeadNode(const HeadShape& shape, tensor::Shape x_shape)
      : Node("linear_cross_entropy"), shape_(shape), x_shape_(std::move(x_shape)) {}

  void save_inputs(const Tensor& x, const Tensor& weight) {
    if (needs(1)) save(x, 0);
    if (needs(0)) save(weight, 1);
  }

  // The factor next, then the chunks, the last one first: it is the nearest.
  std::size_t use_order(std::size_t n) const noexcept override {
    const std::size_t first_chunk = saved() - static_cast<std::size_t>(shape_.chunks());
    return n < first_chunk ? n : saved() - 1 - (n - first_chunk);
  }

  void backward(BackwardCall& call) override {
    const Tensor gradient = call.gradient();
    std::size_t n = 0;
    Tensor x;
    Tensor weight;
    if (needs(1)) x = call.use(n++).view({shape_.rows, shape_.hidden});
    if (needs(0)) weight = call.use(n++);
    const Tensor factor = call.use(n++);
    const Tensor scale = Tensor::empty(gradient.device(), {1}, DType::kF32);
    scale_to(gradient, 1, factor, scale);

    Tensor dx;
    if (call.needs(0)) {
      dx = Tensor::empty(gradient.device(), {shape_.rows, shape_.hidden}, shape_.dtype);
    }
    Destination dw =
        call.open(1, gradient.device(), {shape_.vocabulary, shape_.hidden}, shape_.dtype);
    for (std::int64_t chunk = shape_.chunks() - 1; chunk >= 0; --chunk) {
      const Tensor dlogits = call.use(use_order(n++));
      if (dw.tensor.defined()) weight_gradient(chunk, x, dlogits, scale, dw);
      dw.into = Into::kAdd;
      if (dx.defined()) input_gradient(chunk, dlogits, weight, scale, dx);
    }
    call.close(1, dw);
    if (dx.defined()) call.give(0, dx.view(x_shape_));
  }

 private:
  void weight_gradient(std::int64_t chunk, const Tensor& x, const Tensor& dlogits,
                       const Tensor& scale, const Destination& dw) const {
    const LinearShape s = shape_.linear(chunk);
    const Tensor scaled = Tensor::empty(x.device(), {s.rows, s.in}, s.dtype);
    scale_to(rows_of(x, shape_, chunk), 1, scale, scaled);
    const Kernels& kernels = x.device().kernels();
    const Tensor scratch =
        workspace(x.device(), kernels.linear_backward_weight_workspace(s));
    launch_op({.name = "linear_cross_entropy.backward_weight",
               .dtype = s.dtype,
               .flops = flops(s)},
              {scaled, dlogits, dw.into == Into::kAdd ? dw.tensor : Tensor()},
              {dw.tensor, scratch},
              [&kernels, s, in = scaled.data(), grad = dlogits.data(), into = dw.into,
               out = dw.data(), work = workspace_of(scratch)](void* queue) {
                kernels.linear_backward_weight(s, in, grad, into, out, nullptr, work,
                                               queue);
              });
  }

  void input_gradient(std::int64_t chunk, const Tensor& dlogits, const Tensor& weight,
                      const Tensor& scale, const Tensor& dx) const {
    const LinearShape s = shape_.linear(chunk);
    const Tensor part = rows_of(dx, shape_, chunk);
    const Kernels& kernels = dx.device().kernels();
    const Tensor scratch =
        workspace(dx.device(), kernels.linear_backward_input_workspace(s));
    launch_op({.name = "linear_cross_entropy.backward_input",
               .dtype = s.dtype,
               .flops = flops(s)},
              {dlogits, weight}, {part, scratch},
              [&kernels, s, grad = dlogits.data(), w = weight.data(), out = part.data(),
               work = workspace_of(scratch)](void* queue) {
                kernels.linear_backward_input(s, grad, w, out, work, queue);
              });
    scale_to(part, 1, scale, part);
  }

  const HeadShape shape_;
  const tensor::Shape x_shape_;
};

HeadShape check_head(const Tensor& x, const Tensor& weight, const Tensor& targets) {
  EBB_CHECK(x.dimensions() >= 1 && weight.dimensions() == 2 && weight.contiguous() &&
                weight.size(1) == x.size(-1) && weight.dtype() == x.dtype(),
            kInvalidArgument,
            "linear_cross_entropy: x[..., hidden] goes with a contiguous "
            "weight[vocabulary, hidden] of its dtype");
  EBB_CHECK(weight.elements() > 0, kInvalidArgument,
            "linear_cross_entropy: the weight is empty");
  const std::int64_t rows = x.elements() / x.size(-1);
  EBB_CHECK(
      targets.dtype() == DType::kI32 && targets.contiguous() && targets.elements() == rows,
      kInvalidArgument,
      "linear_cross_entropy: targets are contiguous i32, one for each row of x");
  return {x.dtype(), rows, x.size(-1), weight.size(0)};
}

}  // namespace

Tensor linear_cross_entropy(const Tensor& x_any_layout, const Tensor& weight,
                            const Tensor& targets_any_shape) {
  const HeadShape s = check_head(x_any_layout, weight, targets_any_shape);
  const Tensor x = contiguous(x_any_layout);
  const auto node = record<HeadNode>({x, weight}, s, x.shape());
  if (node) node->save_inputs(x, weight);
  const Tensor rows = x.view({s.rows, s.hidden});
  const Tensor targets = targets_any_shape.view({s.rows});
  const Tensor factor = mean_factor(targets);
  if (node) node->save(factor);
  const Tensor losses = Tensor::empty(x.device(), {s.rows}, DType::kF32);
  fill(losses, 0);
  for (std::int64_t chunk = 0; chunk < s.chunks(); ++chunk) {
    const Tensor logits = chunk_logits(s, chunk, rows, weight);
    chunk_loss(logits, rows_of(targets, s, chunk), rows_of(losses, s, chunk),
               node != nullptr);
    if (node) node->save(logits);
  }
  return attach(node, mean(losses, factor));
}

}  // namespace ebb::autograd
