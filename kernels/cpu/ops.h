// The entries of the CPU's table (kernels/kernels.h says what they do), for one instruction
// set, and the reductions that they share.

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace ebb::cpu::EBB_ISA {

std::size_t linear_forward_workspace(const LinearShape&);
void linear_forward(const LinearShape&, const void* x, const void* weight, const void* bias,
                    bool gelu, void* y, Workspace, NativeQueue);
std::size_t linear_backward_input_workspace(const LinearShape&);
void linear_backward_input(const LinearShape&, const void* dy, const void* weight, void* dx,
                           Workspace, NativeQueue);
std::size_t linear_backward_weight_workspace(const LinearShape&);
void linear_backward_weight(const LinearShape&, const void* x, const void* dy, Into,
                            void* dw, void* db, Workspace, NativeQueue);
void gelu_forward(DType, std::int64_t elements, const void* x, void* y, NativeQueue);
void gelu_backward(DType, std::int64_t elements, const void* x, const void* dy, void* dx,
                   NativeQueue);
void layer_norm_forward(const NormShape&, const void* x, const void* gamma,
                        const void* beta, void* y, float* mean, float* rstd, NativeQueue);
std::size_t layer_norm_backward_workspace(const NormShape&);
void layer_norm_backward(const NormShape&, const void* x, const void* gamma,
                         const float* mean, const float* rstd, const void* dy, void* dx,
                         Into, void* dgamma, void* dbeta, Workspace, NativeQueue);
std::size_t attention_forward_workspace(const AttentionShape&);
void attention_forward(const AttentionShape&, const Dropout&, const void* qkv, void* out,
                       float* log_sum_exp, Workspace, NativeQueue);
std::size_t attention_backward_workspace(const AttentionShape&);
void attention_backward(const AttentionShape&, const Dropout&, const void* qkv,
                        const void* out, const float* log_sum_exp, const void* dout,
                        void* dqkv, Workspace, NativeQueue);
void embedding_forward(const EmbeddingShape&, const std::int32_t* tokens, const void* table,
                       const void* positions, void* out, NativeQueue);
std::size_t embedding_backward_workspace(const EmbeddingShape&);
void embedding_backward(const EmbeddingShape&, const std::int32_t* tokens, const void* dout,
                        void* d_table, void* d_positions, Workspace, NativeQueue);
void dropout_forward(const DropoutShape&, const Dropout&, const void* x,
                     const void* residual, void* y, NativeQueue);
void dropout_backward(const DropoutShape&, const Dropout&, const void* dy, void* dx,
                      NativeQueue);
void cross_entropy(const CrossEntropyShape&, void* logits, const std::int32_t* targets,
                   float* row_losses, bool gradient, float gradient_scale, NativeQueue);
void mean_factor(std::int64_t rows, const std::int32_t* targets, float* factor,
                 NativeQueue);
void fill(DType, std::int64_t elements, float value, void* y, NativeQueue);
void add(DType, std::int64_t elements, const void* a, const void* b, void* y, NativeQueue);
void multiply(DType, std::int64_t elements, const void* a, const void* b, void* y,
              NativeQueue);
void scale(DType, std::int64_t elements, const void* x, float factor,
           const float* device_factor, void* y, NativeQueue);
void sum(DType, std::int64_t elements, const void* x, float factor, float* out,
         NativeQueue);
void copy_strided(DType, int dimensions, const std::int64_t* shape, const void* x,
                  const std::int64_t* x_strides, void* y, const std::int64_t* y_strides,
                  NativeQueue);
void sum_of_squares(DType, std::int64_t elements, const void* x, float* out, NativeQueue);
void clip_factor(std::int64_t count, const float* squares, float max_norm, float* norm,
                 float* factor, NativeQueue);
void adamw(DType, std::int64_t elements, const AdamW&, void* parameter,
           const void* gradient, const float* gradient_factor, float* m, float* v,
           float* master, NativeQueue);

// sums[columns] = or += the sums of x[rows, columns] over its rows: blocks of 256 rows, and
// pairs of these.
void column_sums(std::int64_t rows, std::int64_t columns, const float* x, Into into,
                 float* sums);

// The table of these.
const Kernels& table();

}  // namespace ebb::cpu::EBB_ISA
