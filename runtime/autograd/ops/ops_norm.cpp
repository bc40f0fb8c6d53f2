// Layer norm.

#include <utility>

#include "allocator/error.h"
#include "runtime/autograd/backward_call.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/ops/ops.h"
#include "runtime/autograd/primitive.h"

namespace ebb::autograd {
namespace {

NormShape check_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                     float epsilon) {
  EBB_CHECK(x.dimensions() >= 1, kInvalidArgument, "layer_norm: x has no dimension");
  for (const Tensor* parameter : {&gamma, &beta}) {
    EBB_CHECK(parameter->dimensions() == 1 && parameter->size(0) == x.size(-1) &&
                  parameter->dtype() == x.dtype() && parameter->contiguous(),
              kInvalidArgument,
              "layer_norm: gamma and beta are contiguous, of x's dtype and last size");
  }
  const std::int64_t columns = x.size(-1);
  return {x.dtype(), columns == 0 ? 0 : x.elements() / columns, columns, epsilon};
}

class LayerNormNode final : public Node {
 public:
  explicit LayerNormNode(const NormShape& shape) : Node("layer_norm"), shape_(shape) {}

  void backward(BackwardCall& call) override {
    const Tensor dy = call.gradient();
    const Tensor x = call.use(0);
    const Tensor gamma = call.use(1);
    const Tensor mean = call.use(2);
    const Tensor rstd = call.use(3);
    // The kernel makes all three; what nobody needs is thrown away.
    Destination dgamma = call.open(1, x.device(), gamma.shape(), x.dtype());
    Destination dbeta = call.open(2, x.device(), gamma.shape(), x.dtype());
    Destination spare_gamma = spare(dgamma, gamma);
    Destination spare_beta = spare(dbeta, gamma);
    Destination& to_gamma = dgamma.tensor.defined() ? dgamma : spare_gamma;
    Destination& to_beta = dbeta.tensor.defined() ? dbeta : spare_beta;
    make_alike(to_gamma, to_beta);
    Tensor dx = Tensor::empty(x.device(), x.shape(), x.dtype());
    launch(x, gamma, mean, rstd, dy, dx, to_gamma, to_beta);
    call.close(1, dgamma);
    call.close(2, dbeta);
    call.give(0, std::move(dx));
  }

 private:
  static Destination spare(const Destination& wanted, const Tensor& like) {
    if (wanted.tensor.defined()) return {};
    return {Tensor::empty(like.device(), like.shape(), like.dtype()), Into::kOverwrite,
            false};
  }

  void launch(const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
              const Tensor& dy, const Tensor& dx, const Destination& dgamma,
              const Destination& dbeta) const {
    const Kernels& kernels = x.device().kernels();
    const Tensor scratch =
        workspace(x.device(), kernels.layer_norm_backward_workspace(shape_));
    const bool add = dgamma.into == Into::kAdd;
    launch_op({.name = "layer_norm.backward",
               .dtype = x.dtype(),
               .flops = 14.0 * static_cast<double>(x.elements())},
              {x, gamma, mean, rstd, dy, add ? dgamma.tensor : Tensor(),
               add ? dbeta.tensor : Tensor()},
              {dx, dgamma.tensor, dbeta.tensor, scratch},
              [&kernels, shape = shape_, in = x.data(), g = gamma.data(),
               m = mean.data_as<float>(), r = rstd.data_as<float>(), grad = dy.data(),
               out = dx.data(), into = dgamma.into, dg = dgamma.data(), db = dbeta.data(),
               work = workspace_of(scratch)](void* queue) {
                kernels.layer_norm_backward(shape, in, g, m, r, grad, out, into, dg, db,
                                            work, queue);
              });
  }

  const NormShape shape_;
};

}  // namespace

Tensor layer_norm(const Tensor& x_any_layout, const Tensor& gamma, const Tensor& beta,
                  float epsilon) {
  const NormShape s = check_norm(x_any_layout, gamma, beta, epsilon);
  const Tensor x = contiguous(x_any_layout);
  const auto node = record<LayerNormNode>({x, gamma, beta}, s);
  if (node) {
    node->save(x, 0);
    node->save(gamma, 1);
  }
  Tensor y = Tensor::empty(x.device(), x.shape(), x.dtype());
  const Tensor mean = Tensor::empty(x.device(), {s.rows}, DType::kF32);
  const Tensor rstd = Tensor::empty(x.device(), {s.rows}, DType::kF32);
  launch_op(
      {.name = "layer_norm.forward",
       .dtype = s.dtype,
       .flops = 8.0 * static_cast<double>(x.elements())},
      {x, gamma, beta}, {y, mean, rstd},
      [kernel = x.device().kernels().layer_norm_forward, s, in = x.data(), g = gamma.data(),
       b = beta.data(), out = y.data(), m = mean.data_as<float>(),
       r = rstd.data_as<float>()](void* queue) { kernel(s, in, g, b, out, m, r, queue); });
  if (node) {
    node->save(mean);
    node->save(rstd);
  }
  return attach(node, std::move(y));
}

}  // namespace ebb::autograd
