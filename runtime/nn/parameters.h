// The parameters of a model, by name.

#pragma once

#include <string>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace ebb::nn {

struct Parameter {
  std::string name;  // As in GPT-2's published snapshots: "h.0.attn.c_attn.weight".
  Tensor tensor;
  bool decay = false;  // Whether weight decay applies: matrices, not biases and norms.
};
using Parameters = std::vector<Parameter>;

}  // namespace ebb::nn
