// The layers of a pre-norm transformer. Handles of parameters: copies share them.

#pragma once

#include <cstdint>

#include "runtime/tensor/tensor.h"

namespace ebb::nn {

// x[..., in] -> [..., out]
struct Linear {
  Tensor weight;  // [out, in]
  Tensor bias;    // [out], or undefined

  Tensor operator()(const Tensor& x) const;
  Tensor gelu(const Tensor& x) const;  // gelu of the same, in one pass where possible
};

struct LayerNorm {
  Tensor weight;  // [hidden]
  Tensor bias;    // [hidden]

  Tensor operator()(const Tensor& x) const;
};

struct Embedding {
  Tensor table;      // [vocabulary, hidden]
  Tensor positions;  // [positions, hidden], or undefined

  // tokens[batch, seq], i32 -> [batch, seq, hidden]
  Tensor operator()(const Tensor& tokens) const;
};

// Causal attention. x[batch, seq, hidden] -> the same
struct Attention {
  std::int64_t heads = 0;
  float dropout = 0;  // Of the probabilities.
  Linear c_attn;      // [3 hidden, hidden]
  Linear c_proj;      // [hidden, hidden]

  Tensor operator()(const Tensor& x) const;
};

struct Mlp {
  Linear c_fc;    // [4 hidden, hidden]
  Linear c_proj;  // [hidden, 4 hidden]

  Tensor operator()(const Tensor& x) const;
};

// x + dropout(attention(norm(x))), then the same with the MLP.
struct Block {
  float dropout = 0;
  LayerNorm ln_1;
  Attention attn;
  LayerNorm ln_2;
  Mlp mlp;

  Tensor operator()(const Tensor& x) const;
};

}  // namespace ebb::nn
