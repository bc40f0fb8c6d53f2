// The differentiable ops.
//
// Each queues one kernel, or a few, on the current stream of its inputs' device, and
// records a node if gradients are on and an input needs one. Shapes are row-major.
// Error{kInvalidArgument} for shapes or dtypes that do not fit together.

#pragma once

#include <cstdint>
#include <span>

#include "runtime/tensor/tensor.h"

namespace ebb::autograd {

// x[..., in], weight[out, in], bias[out] or undefined -> [..., out]
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);
// gelu(linear(...)): in one pass where nothing has to be kept for backward.
Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias);
Tensor gelu(const Tensor& x);
Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  float epsilon = 1e-5F);
// qkv[batch, seq, (heads + 2 kv_heads) * head_size] -> [batch, seq, heads * head_size]
Tensor attention(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, bool causal,
                 float dropout);
// tokens[batch, seq] (i32), table[vocabulary, hidden], positions[>= seq, hidden] or
// undefined -> [batch, seq, hidden]
Tensor embedding(const Tensor& tokens, const Tensor& table, const Tensor& positions);
// dropout(x) + residual; residual may be undefined. x[batch, ...]: the first dimension is
// the sample's.
Tensor dropout_add(const Tensor& x, const Tensor& residual, float probability);
// The mean cross entropy of x[..., hidden] weight[vocabulary, hidden]^T against
// targets[...] (i32, -1 leaves out) -> [1], f32. Chunked over rows: the logits of the batch
// are held once (as their gradient) with gradients on, one chunk of them without.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets);

Tensor add(const Tensor& a, const Tensor& b);
Tensor multiply(const Tensor& a, const Tensor& b);
Tensor scale(const Tensor& x, float factor);
Tensor sum(const Tensor& x);  // -> [1], f32
void add_in_place(const Tensor& a,
                  const Tensor& b);  // a += b, and a gets a new version. Not for leaves
                                     // that need a gradient.

// Views share the storage; their gradients are views, or scattered back.
Tensor view(const Tensor& x, tensor::Shape shape);
Tensor transpose(const Tensor& x, int a, int b);
Tensor slice(const Tensor& x, int dimension, std::int64_t begin, std::int64_t end);
Tensor expand(const Tensor& x, tensor::Shape shape);
Tensor contiguous(const Tensor& x);

}  // namespace ebb::autograd
