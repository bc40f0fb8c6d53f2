// The entries of the CPU's table (kernels/kernels.h says what they do), for one instruction
// set, and the reductions that they share.

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace ebb::cpu::EBB_ISA {

std::size_t linear_forward_workspace(const LinearShape& shape);
void linear_forward(const LinearShape& shape, const void* x, const void* weight,
                    const void* bias, bool gelu, void* y, Workspace workspace,
                    NativeQueue queue);
std::size_t linear_backward_input_workspace(const LinearShape& shape);
void linear_backward_input(const LinearShape& shape, const void* dy, const void* weight,
                           void* dx, Workspace workspace, NativeQueue queue);
std::size_t linear_backward_weight_workspace(const LinearShape& shape);
void linear_backward_weight(const LinearShape& shape, const void* x, const void* dy,
                            Into into, void* dw, void* db, Workspace workspace,
                            NativeQueue queue);
void gelu_forward(DType dtype, std::int64_t elements, const void* x, void* y,
                  NativeQueue queue);
void gelu_backward(DType dtype, std::int64_t elements, const void* x, const void* dy,
                   void* dx, NativeQueue queue);
void layer_norm_forward(const NormShape& shape, const void* x, const void* gamma,
                        const void* beta, void* y, float* mean, float* rstd,
                        NativeQueue queue);
std::size_t layer_norm_backward_workspace(const NormShape& shape);
void layer_norm_backward(const NormShape& shape, const void* x, const void* gamma,
                         const float* mean, const float* rstd, const void* dy, void* dx,
                         Into into, void* dgamma, void* dbeta, Workspace workspace,
                         NativeQueue queue);
std::size_t attention_forward_workspace(const AttentionShape& shape);
void attention_forward(const AttentionShape& shape, const Dropout& dropout, const void* qkv,
                       void* out, float* log_sum_exp, Workspace workspace,
                       NativeQueue queue);
std::size_t attention_backward_workspace(const AttentionShape& shape);
void attention_backward(const AttentionShape& shape, const Dropout& dropout,
                        const void* qkv, const void* out, const float* log_sum_exp,
                        const void* dout, void* dqkv, Workspace workspace,
                        NativeQueue queue);
void embedding_forward(const EmbeddingShape& shape, const std::int32_t* tokens,
                       const void* table, const void* positions, void* out,
                       NativeQueue queue);
std::size_t embedding_backward_workspace(const EmbeddingShape& shape);
void embedding_backward(const EmbeddingShape& shape, const std::int32_t* tokens,
                        const void* dout, void* d_table, void* d_positions,
                        Workspace workspace, NativeQueue queue);
void dropout_forward(const DropoutShape& shape, const Dropout& dropout, const void* x,
                     const void* residual, void* y, NativeQueue queue);
void dropout_backward(const DropoutShape& shape, const Dropout& dropout, const void* dy,
                      void* dx, NativeQueue queue);
void cross_entropy(const CrossEntropyShape& shape, void* logits,
                   const std::int32_t* targets, float* row_losses, bool gradient,
                   float gradient_scale, NativeQueue queue);
void mean_factor(std::int64_t rows, const std::int32_t* targets, float* factor,
                 NativeQueue queue);
void fill(DType dtype, std::int64_t elements, float value, void* y, NativeQueue queue);
void add(DType dtype, std::int64_t elements, const void* a, const void* b, void* y,
         NativeQueue queue);
void multiply(DType dtype, std::int64_t elements, const void* a, const void* b, void* y,
              NativeQueue queue);
void scale(DType dtype, std::int64_t elements, const void* x, float factor,
           const float* device_factor, void* y, NativeQueue queue);
void sum(DType dtype, std::int64_t elements, const void* x, float factor, float* out,
         NativeQueue queue);
void copy_strided(DType dtype, int dimensions, const std::int64_t* shape, const void* x,
                  const std::int64_t* x_strides, void* y, const std::int64_t* y_strides,
                  NativeQueue queue);
void sum_of_squares(DType dtype, std::int64_t elements, const void* x, float* out,
                    NativeQueue queue);
void clip_factor(std::int64_t count, const float* squares, float max_norm, float* norm,
                 float* factor, NativeQueue queue);
void adamw(DType dtype, std::int64_t elements, const AdamW& options, void* parameter,
           const void* gradient, const float* gradient_factor, float* m, float* v,
           float* master, NativeQueue queue);

// sums[columns] = or += the sums of x[rows, columns] over its rows: blocks of 256 rows, and
// pairs of these.
void column_sums(std::int64_t rows, std::int64_t columns, const float* x, Into into,
                 float* sums);

// The table of these.
const Kernels& table();

}  // namespace ebb::cpu::EBB_ISA
