// The op table: the math of training on raw pointers, one entry for each op and direction.
//
// A table is a struct of function pointers, so that a device chooses its own at run time.
// Every entry takes sizes, pointers, a workspace of as many bytes as its `_workspace` twin
// says (null if that is 0), and an opaque native queue (a cudaStream_t; null on the CPU,
// where the call returns when the work is done). Matrices are row-major. `dtype` is that of
// the activations and weights; statistics, losses, log-sum-exps and the state of the
// optimizer are f32 always. No entry allocates from the operating system after its first
// call with a shape. The bits of a result depend on shapes and thread count alone: sums are
// trees of a fixed form, and nothing is added atomically (docs/architecture.md, "Bits").
//
// Errors: Error{kInvalidArgument} for a dtype or shape that the table does not support.
// Thread-safety: calls from one thread at a time.

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"
#include "kernels/philox.h"

namespace ebb {

struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};
using NativeQueue = void*;

// y[rows, out] = x[rows, in] weight[out, in]^T + bias[out]
struct LinearShape {
  DType dtype = DType::kF32;
  std::int64_t rows = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
};

struct NormShape {
  DType dtype = DType::kF32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  float epsilon = 1e-5F;
};

// q is at qkv + 0, k at + heads * head_size, v at + (heads + kv_heads) * head_size of each
// row of qkv[batch, seq, (heads + 2 kv_heads) * head_size]; out is [batch, seq, heads *
// head_size]. The softmax scale is 1 / sqrt(head_size). Dropout applies to the
// probabilities: element (head * seq + query) * seq + key of a sample.
struct AttentionShape {
  DType dtype = DType::kF32;
  std::int64_t batch = 0;
  std::int64_t seq = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;
  bool causal = true;
};

// `samples` equal parts of `elements` elements each: element e of sample s draws its own
// random number.
struct DropoutShape {
  DType dtype = DType::kF32;
  std::int64_t samples = 0;
  std::int64_t elements = 0;
};

struct Dropout {
  float probability = 0;  // 0 keeps everything, and draws nothing.
  RandomKey key;
};

struct EmbeddingShape {
  DType dtype = DType::kF32;
  std::int64_t batch = 0;
  std::int64_t seq = 0;
  std::int64_t hidden = 0;
  std::int64_t vocabulary = 0;
};

struct CrossEntropyShape {
  DType dtype = DType::kF32;
  std::int64_t rows = 0;
  std::int64_t vocabulary = 0;
};

struct AdamW {
  float learning_rate = 0;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float weight_decay = 0.1F;
  std::int64_t step = 1;  // From 1, for the bias correction.
};

// What a backward op does with a parameter's gradient.
enum class Into : std::uint8_t { kOverwrite, kAdd };

struct Kernels {
  // --- linear. `bias` and `db` may be null. `gelu` applies the tanh GELU to the result, in
  // one pass where the library can: for passes whose pre-activation nobody needs again.
  std::size_t (*linear_forward_workspace)(const LinearShape&);
  void (*linear_forward)(const LinearShape&, const void* x, const void* weight,
                         const void* bias, bool gelu, void* y, Workspace, NativeQueue);
  std::size_t (*linear_backward_input_workspace)(const LinearShape&);
  void (*linear_backward_input)(const LinearShape&, const void* dy, const void* weight,
                                void* dx, Workspace, NativeQueue);
  std::size_t (*linear_backward_weight_workspace)(const LinearShape&);
  void (*linear_backward_weight)(const LinearShape&, const void* x, const void* dy, Into,
                                 void* dw, void* db, Workspace, NativeQueue);

  // --- GELU, tanh form (Hendrycks and Gimpel, arXiv 1606.08415). y or dx may be x or dy
  // itself.
  void (*gelu_forward)(DType, std::int64_t elements, const void* x, void* y, NativeQueue);
  void (*gelu_backward)(DType, std::int64_t elements, const void* x, const void* dy,
                        void* dx, NativeQueue);

  // --- layer norm over the last dimension. mean and rstd are f32 [rows].
  void (*layer_norm_forward)(const NormShape&, const void* x, const void* gamma,
                             const void* beta, void* y, float* mean, float* rstd,
                             NativeQueue);
  std::size_t (*layer_norm_backward_workspace)(const NormShape&);
  void (*layer_norm_backward)(const NormShape&, const void* x, const void* gamma,
                              const float* mean, const float* rstd, const void* dy,
                              void* dx, Into, void* dgamma, void* dbeta, Workspace,
                              NativeQueue);

  // --- attention: tiled online softmax (Dao et al., arXiv 2205.14135; backward from the
  // log-sum-exp, section 3.1 of arXiv 2307.08691). log_sum_exp is f32 [batch, heads, seq].
  // No seq x seq matrix is kept.
  std::size_t (*attention_forward_workspace)(const AttentionShape&);
  void (*attention_forward)(const AttentionShape&, const Dropout&, const void* qkv,
                            void* out, float* log_sum_exp, Workspace, NativeQueue);
  std::size_t (*attention_backward_workspace)(const AttentionShape&);
  void (*attention_backward)(const AttentionShape&, const Dropout&, const void* qkv,
                             const void* out, const float* log_sum_exp, const void* dout,
                             void* dqkv, Workspace, NativeQueue);

  // --- embedding: out[b, t] = table[tokens[b, t]] + positions[t]. `positions` ([seq,
  // hidden]) and its gradient may be null. A token outside the vocabulary is
  // Error{kInvalidArgument}. The gradients are added to d_table and d_positions, in an
  // order that is fixed by the tokens.
  void (*embedding_forward)(const EmbeddingShape&, const std::int32_t* tokens,
                            const void* table, const void* positions, void* out,
                            NativeQueue);
  std::size_t (*embedding_backward_workspace)(const EmbeddingShape&);
  void (*embedding_backward)(const EmbeddingShape&, const std::int32_t* tokens,
                             const void* dout, void* d_table, void* d_positions, Workspace,
                             NativeQueue);

  // --- dropout: y = x * mask / (1 - probability) + residual. `residual` may be null; y may
  // be x or residual itself. The mask is drawn again in backward, so none is kept.
  // backward: dx = dy * mask / (1 - probability).
  void (*dropout_forward)(const DropoutShape&, const Dropout&, const void* x,
                          const void* residual, void* y, NativeQueue);
  void (*dropout_backward)(const DropoutShape&, const Dropout&, const void* dy, void* dx,
                           NativeQueue);

  // --- cross entropy of rows of logits against int32 targets; a target of -1 leaves its
  // row out. Adds each row's loss to its place in row_losses (f32 [rows]). If `gradient` is
  // given, logits become softmax(logits) - onehot(target), times `gradient_scale`, in
  // place; rows left out become 0.
  void (*cross_entropy)(const CrossEntropyShape&, void* logits, const std::int32_t* targets,
                        float* row_losses, bool gradient, float gradient_scale,
                        NativeQueue);

  // factor[0] = 1 / max(1, the number of targets that are not -1). f32.
  void (*mean_factor)(std::int64_t rows, const std::int32_t* targets, float* factor,
                      NativeQueue);

  // --- elementwise and reductions.
  void (*fill)(DType, std::int64_t elements, float value, void* y, NativeQueue);
  void (*add)(DType, std::int64_t elements, const void* a, const void* b, void* y,
              NativeQueue);  // y = a + b
  void (*multiply)(DType, std::int64_t elements, const void* a, const void* b, void* y,
                   NativeQueue);  // y = a * b
  // y = x * factor * device_factor[0]; the second factor may be null.
  void (*scale)(DType, std::int64_t elements, const void* x, float factor,
                const float* device_factor, void* y, NativeQueue);
  // out[0] = factor * (x[0] + x[1] + ...), by a tree of fixed form. out is f32.
  void (*sum)(DType, std::int64_t elements, const void* x, float factor, float* out,
              NativeQueue);
  // Copies between two layouts of one shape (strides in elements; 0 expands the source).
  void (*copy_strided)(DType, int dimensions, const std::int64_t* shape, const void* x,
                       const std::int64_t* x_strides, void* y,
                       const std::int64_t* y_strides, NativeQueue);

  // --- optimizer. Sum of squares of one tensor, into out[0] (f32).
  void (*sum_of_squares)(DType, std::int64_t elements, const void* x, float* out,
                         NativeQueue);
  // factor[0] = min(1, max_norm / (norm + 1e-6)) and norm[0] = sqrt(sum of squares[0 ..
  // count)).
  void (*clip_factor)(std::int64_t count, const float* squares, float max_norm, float* norm,
                      float* factor, NativeQueue);
  // AdamW (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2), on gradient *
  // gradient_factor[0] (null is 1). parameter and gradient are `dtype`; m and v are f32;
  // master is f32, or null where the parameter is f32 itself.
  void (*adamw)(DType, std::int64_t elements, const AdamW&, void* parameter,
                const void* gradient, const float* gradient_factor, float* m, float* v,
                float* master, NativeQueue);
};

}  // namespace ebb
