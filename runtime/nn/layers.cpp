#include "runtime/nn/layers.h"

#include "runtime/autograd/ops/ops.h"

// One variable is assigned step by step, where nested calls would keep every intermediate
// tensor to the end of the expression.

namespace ebb::nn {

Tensor Linear::operator()(const Tensor& x) const {
  return autograd::linear(x, weight, bias);
}
Tensor Linear::gelu(const Tensor& x) const {
  return autograd::linear_gelu(x, weight, bias);
}

Tensor LayerNorm::operator()(const Tensor& x) const {
  return autograd::layer_norm(x, weight, bias);
}

Tensor Embedding::operator()(const Tensor& tokens) const {
  return autograd::embedding(tokens, table, positions);
}

Tensor Attention::operator()(const Tensor& x) const {
  Tensor h = c_attn(x);
  h = autograd::attention(h, heads, heads, /*causal=*/true, dropout);
  return c_proj(h);
}

Tensor Mlp::operator()(const Tensor& x) const {
  const Tensor h = c_fc.gelu(x);
  return c_proj(h);
}

Tensor Block::operator()(const Tensor& x) const {
  Tensor h = ln_1(x);
  h = attn(h);
  const Tensor middle = autograd::dropout_add(h, x, dropout);
  h = ln_2(middle);
  h = mlp(h);
  return autograd::dropout_add(h, middle, dropout);
}

}  // namespace ebb::nn
