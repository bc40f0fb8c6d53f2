#include "kernels/cpu/ops.h"

namespace ebb::cpu::EBB_ISA {

const Kernels& table() {
  static constexpr Kernels kTable = {
      .linear_forward_workspace = EBB_ISA::linear_forward_workspace,
      .linear_forward = EBB_ISA::linear_forward,
      .linear_backward_input_workspace = EBB_ISA::linear_backward_input_workspace,
      .linear_backward_input = EBB_ISA::linear_backward_input,
      .linear_backward_weight_workspace = EBB_ISA::linear_backward_weight_workspace,
      .linear_backward_weight = EBB_ISA::linear_backward_weight,
      .gelu_forward = EBB_ISA::gelu_forward,
      .gelu_backward = EBB_ISA::gelu_backward,
      .layer_norm_forward = EBB_ISA::layer_norm_forward,
      .layer_norm_backward_workspace = EBB_ISA::layer_norm_backward_workspace,
      .layer_norm_backward = EBB_ISA::layer_norm_backward,
      .attention_forward_workspace = EBB_ISA::attention_forward_workspace,
      .attention_forward = EBB_ISA::attention_forward,
      .attention_backward_workspace = EBB_ISA::attention_backward_workspace,
      .attention_backward = EBB_ISA::attention_backward,
      .embedding_forward = EBB_ISA::embedding_forward,
      .embedding_backward_workspace = EBB_ISA::embedding_backward_workspace,
      .embedding_backward = EBB_ISA::embedding_backward,
      .dropout_forward = EBB_ISA::dropout_forward,
      .dropout_backward = EBB_ISA::dropout_backward,
      .cross_entropy = EBB_ISA::cross_entropy,
      .mean_factor = EBB_ISA::mean_factor,
      .fill = EBB_ISA::fill,
      .add = EBB_ISA::add,
      .multiply = EBB_ISA::multiply,
      .scale = EBB_ISA::scale,
      .sum = EBB_ISA::sum,
      .copy_strided = EBB_ISA::copy_strided,
      .sum_of_squares = EBB_ISA::sum_of_squares,
      .clip_factor = EBB_ISA::clip_factor,
      .adamw = EBB_ISA::adamw,
  };
  return kTable;
}

}  // namespace ebb::cpu::EBB_ISA
