#include <cmath>

#include "kernels/cpu/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

namespace ebb::cpu {
namespace {

void require_shape(const NormShape& s, const char* op) {
  require_f32(s.dtype, op);
  require_positive(s.rows, op, "rows");
  require_positive(s.columns, op, "columns");
}

// The gradients of gamma and beta are summed over blocks of rows first, at most 64 of them,
// so that the workspace stays small.
std::int64_t block_rows(std::int64_t rows) {
  return std::max<std::int64_t>(16, (rows + 63) / 64);
}

std::int64_t block_count(std::int64_t rows) {
  return (rows + block_rows(rows) - 1) / block_rows(rows);
}

}  // namespace

void layer_norm_forward(const NormShape& s, const void* x, const void* gamma,
                        const void* beta, void* y, float* mean, float* rstd,
                        NativeQueue /*queue*/) {
  require_shape(s, "layer_norm_forward");
  const auto* g = static_cast<const float*>(gamma);
  const auto* b = static_cast<const float*>(beta);
  parallel_for(s.rows, [&](std::int64_t row) {
    const float* in = static_cast<const float*>(x) + row * s.columns;
    float* out = static_cast<float*>(y) + row * s.columns;
    double sum = 0;
    for (std::int64_t i = 0; i < s.columns; ++i) sum += in[i];
    const double m = sum / static_cast<double>(s.columns);
    double squares = 0;
    for (std::int64_t i = 0; i < s.columns; ++i) squares += (in[i] - m) * (in[i] - m);
    const double variance = squares / static_cast<double>(s.columns);
    mean[row] = static_cast<float>(m);
    rstd[row] = static_cast<float>(1.0 / std::sqrt(variance + s.epsilon));
    for (std::int64_t i = 0; i < s.columns; ++i) {
      out[i] = (in[i] - mean[row]) * rstd[row] * g[i] + b[i];
    }
  });
}

std::size_t layer_norm_backward_workspace(const NormShape& s) {
  require_shape(s, "layer_norm_backward");
  return static_cast<std::size_t>(2 * block_count(s.rows) * s.columns) * sizeof(float);
}

void layer_norm_backward(const NormShape& s, const void* x, const void* gamma,
                         const float* mean, const float* rstd, const void* dy, void* dx,
                         Into into, void* dgamma, void* dbeta, Workspace workspace,
                         NativeQueue /*queue*/) {
  require_workspace(workspace, layer_norm_backward_workspace(s), "layer_norm_backward");
  const auto* g = static_cast<const float*>(gamma);
  const std::int64_t blocks = block_count(s.rows);
  const std::int64_t columns = s.columns;
  auto* gamma_parts = static_cast<float*>(workspace.data);
  float* beta_parts = gamma_parts + blocks * columns;
  parallel_for(blocks, [&](std::int64_t block) {
    float* gamma_part = gamma_parts + block * columns;
    float* beta_part = beta_parts + block * columns;
    std::fill(gamma_part, gamma_part + columns, 0.0F);
    std::fill(beta_part, beta_part + columns, 0.0F);
    const std::int64_t end = std::min(s.rows, (block + 1) * block_rows(s.rows));
    for (std::int64_t row = block * block_rows(s.rows); row < end; ++row) {
      const float* in = static_cast<const float*>(x) + row * columns;
      const float* gradient = static_cast<const float*>(dy) + row * columns;
      float* out = static_cast<float*>(dx) + row * columns;
      float sum = 0;
      float product = 0;
      for (std::int64_t i = 0; i < columns; ++i) {
        const float normed = (in[i] - mean[row]) * rstd[row];
        sum += gradient[i] * g[i];
        product += gradient[i] * g[i] * normed;
        gamma_part[i] += gradient[i] * normed;
        beta_part[i] += gradient[i];
      }
      sum /= static_cast<float>(columns);
      product /= static_cast<float>(columns);
      for (std::int64_t i = 0; i < columns; ++i) {
        const float normed = (in[i] - mean[row]) * rstd[row];
        out[i] = rstd[row] * (gradient[i] * g[i] - sum - normed * product);
      }
    }
  });
  column_sums(blocks, columns, gamma_parts, into, static_cast<float*>(dgamma));
  column_sums(blocks, columns, beta_parts, into, static_cast<float*>(dbeta));
}

}  // namespace ebb::cpu
