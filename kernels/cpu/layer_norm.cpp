#include "kernels/cpu/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector.h"

namespace ebb::cpu::EBB_ISA {
namespace {

constexpr std::int64_t kForwardRows = 16;

void require_shape(const NormShape& s, const char* op) {
  require_f32(s.dtype, op);
  require_positive(s.rows, op, "rows");
  require_positive(s.columns, op, "columns");
}

// The gradients of gamma and beta are summed over blocks of rows first, at most 64 of them,
// so that the workspace stays small.
std::int64_t block_rows(std::int64_t rows) {
  const std::int64_t share = (rows + 63) / 64;
  return share > 16 ? share : 16;
}

std::int64_t block_count(std::int64_t rows) {
  return (rows + block_rows(rows) - 1) / block_rows(rows);
}

void forward_row(const NormShape& s, const float* x, const float* gamma, const float* beta,
                 float* y, float& mean, float& rstd) {
  const auto columns = static_cast<float>(s.columns);
  const float m = sum_terms(s.columns, [=](auto access,
                                           std::int64_t i) { return access.load(x + i); }) /
                  columns;
  const float squares = sum_terms(s.columns, [=](auto access, std::int64_t i) {
    const Vector centred = access.only(access.load(x + i) - m);
    return centred * centred;
  });
  const float r = 1.0F / __builtin_sqrtf(squares / columns + s.epsilon);
  mean = m;
  rstd = r;
  for_vectors(s.columns, [=](auto access, std::int64_t i) {
    const Vector normed = (access.load(x + i) - m) * r;
    access.store(y + i, normed * access.load(gamma + i) + access.load(beta + i));
  });
}

struct BackwardRow {
  const float* x;
  const float* gamma;
  const float* dy;
  float* dx;
  float* dgamma;  // Sums of the row's block.
  float* dbeta;
  float mean;
  float rstd;
};

void backward_row(std::int64_t columns, const BackwardRow& row) {
  const BackwardRow r = row;
  Vector sum{};
  Vector product{};
  for_vectors(columns, [&](auto access, std::int64_t i) {
    const Vector dy = access.load(r.dy + i);
    const Vector normed = (access.load(r.x + i) - r.mean) * r.rstd;
    const Vector scaled = dy * access.load(r.gamma + i);  // 0 where there is no lane.
    sum += scaled;
    product += scaled * normed;
    access.store(r.dgamma + i, access.load(r.dgamma + i) + dy * normed);
    access.store(r.dbeta + i, access.load(r.dbeta + i) + dy);
  });
  const float mean_sum = sum_lanes(sum) / static_cast<float>(columns);
  const float mean_product = sum_lanes(product) / static_cast<float>(columns);
  for_vectors(columns, [=](auto access, std::int64_t i) {
    const Vector normed = (access.load(r.x + i) - r.mean) * r.rstd;
    const Vector scaled = access.load(r.dy + i) * access.load(r.gamma + i);
    access.store(r.dx + i, r.rstd * (scaled - mean_sum - normed * mean_product));
  });
}

}  // namespace

void layer_norm_forward(const NormShape& s, const void* x, const void* gamma,
                        const void* beta, void* y, float* mean, float* rstd,
                        NativeQueue /*queue*/) {
  require_shape(s, "layer_norm_forward");
  parallel_pieces(s.rows, kForwardRows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      forward_row(s, static_cast<const float*>(x) + row * s.columns,
                  static_cast<const float*>(gamma), static_cast<const float*>(beta),
                  static_cast<float*>(y) + row * s.columns, mean[row], rstd[row]);
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
  const std::int64_t blocks = block_count(s.rows);
  const std::int64_t columns = s.columns;
  auto* gamma_sums = static_cast<float*>(workspace.data);
  float* beta_sums = gamma_sums + blocks * columns;
  parallel_pieces(s.rows, block_rows(s.rows), [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = begin / block_rows(s.rows) * columns;
    std::memset(gamma_sums + at, 0, static_cast<std::size_t>(columns) * sizeof(float));
    std::memset(beta_sums + at, 0, static_cast<std::size_t>(columns) * sizeof(float));
    for (std::int64_t row = begin; row < end; ++row) {
      backward_row(columns, {.x = static_cast<const float*>(x) + row * columns,
                             .gamma = static_cast<const float*>(gamma),
                             .dy = static_cast<const float*>(dy) + row * columns,
                             .dx = static_cast<float*>(dx) + row * columns,
                             .dgamma = gamma_sums + at,
                             .dbeta = beta_sums + at,
                             .mean = mean[row],
                             .rstd = rstd[row]});
    }
  });
  column_sums(blocks, columns, gamma_sums, into, static_cast<float*>(dgamma));
  column_sums(blocks, columns, beta_sums, into, static_cast<float*>(dbeta));
}

}  // namespace ebb::cpu::EBB_ISA
