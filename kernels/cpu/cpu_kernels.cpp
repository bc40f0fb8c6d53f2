#include "kernels/cpu/cpu_kernels.h"

#include "kernels/cpu/ops.h"

namespace ebb {

const Kernels& cpu_kernels() {
  static constexpr Kernels kTable = {
      .linear_forward_workspace = cpu::linear_forward_workspace,
      .linear_forward = cpu::linear_forward,
      .linear_backward_input_workspace = cpu::linear_backward_input_workspace,
      .linear_backward_input = cpu::linear_backward_input,
      .linear_backward_weight_workspace = cpu::linear_backward_weight_workspace,
      .linear_backward_weight = cpu::linear_backward_weight,
      .gelu_forward = cpu::gelu_forward,
      .gelu_backward = cpu::gelu_backward,
      .layer_norm_forward = cpu::layer_norm_forward,
      .layer_norm_backward_workspace = cpu::layer_norm_backward_workspace,
      .layer_norm_backward = cpu::layer_norm_backward,
      .attention_forward_workspace = cpu::attention_forward_workspace,
      .attention_forward = cpu::attention_forward,
      .attention_backward_workspace = cpu::attention_backward_workspace,
      .attention_backward = cpu::attention_backward,
      .embedding_forward = cpu::embedding_forward,
      .embedding_backward_workspace = cpu::embedding_backward_workspace,
      .embedding_backward = cpu::embedding_backward,
      .dropout_forward = cpu::dropout_forward,
      .dropout_backward = cpu::dropout_backward,
      .cross_entropy = cpu::cross_entropy,
      .mean_factor = cpu::mean_factor,
      .fill = cpu::fill,
      .add = cpu::add,
      .multiply = cpu::multiply,
      .scale = cpu::scale,
      .sum = cpu::sum,
      .copy_strided = cpu::copy_strided,
      .sum_of_squares = cpu::sum_of_squares,
      .clip_factor = cpu::clip_factor,
      .adamw = cpu::adamw,
  };
  return kTable;
}

}  // namespace ebb
