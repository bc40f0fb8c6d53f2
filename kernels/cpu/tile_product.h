// Products of small matrices that lie in the caches: what attention is made of.

#pragma once

#include <cstdint>

#include "kernels/cpu/vector.h"

namespace ebb::cpu::EBB_ISA {

// A matrix whose element [i, j] is at data[i * row + j * column].
struct TileOperand {
  const float* data;
  std::int64_t row;
  std::int64_t column;
};

// As many sums as registers hold: 6 x 4 of the 32 that AVX-512 has, 6 x 2 of 16 elsewhere.
inline constexpr int kTileRows = 6;
inline constexpr int kTileVectors = kLanes == 16 ? 4 : 2;

// c[kRows, kVectors vectors] = (what it holds, or 0) + a[kRows, k] b[k, kVectors vectors]
template <int kRows, int kVectors, typename Access>
[[gnu::always_inline]] inline void product_in_registers(std::int64_t k, TileOperand a,
                                                        const float* b, std::int64_t b_row,
                                                        float* c, std::int64_t c_row,
                                                        bool add, Access access) {
  Vector sums[kRows][kVectors] = {};
  if (add) {
    for (int i = 0; i < kRows; ++i) {
      for (int j = 0; j < kVectors; ++j) {
        sums[i][j] = access.load(c + i * c_row + j * kLanes);
      }
    }
  }
  const float* left = a.data;
  for (std::int64_t step = 0; step < k; ++step) {
    Vector right[kVectors];
    for (int j = 0; j < kVectors; ++j) right[j] = access.load(b + j * kLanes);
    for (int i = 0; i < kRows; ++i) {
      for (int j = 0; j < kVectors; ++j) sums[i][j] += right[j] * left[i * a.row];
    }
    left += a.column;
    b += b_row;
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kVectors; ++j) {
      access.store(c + i * c_row + j * kLanes, sums[i][j]);
    }
  }
}

template <int kVectors, typename Access>
void product_of_columns(std::int64_t m, std::int64_t k, TileOperand a, const float* b,
                        std::int64_t b_row, float* c, std::int64_t c_row, bool add,
                        Access access) {
  const auto rows = [&]<int kRows>(std::int64_t i) {
    product_in_registers<kRows, kVectors>(k, {a.data + i * a.row, a.row, a.column}, b,
                                          b_row, c + i * c_row, c_row, add, access);
  };
  std::int64_t i = 0;
  for (; i + kTileRows <= m; i += kTileRows) rows.template operator()<kTileRows>(i);
  for (; i + 2 <= m; i += 2) rows.template operator()<2>(i);
  if (i < m) rows.template operator()<1>(i);
}

// c[m, n] = a[m, k] b[k, n], plus what c holds if `add`. b and c are row-major, with rows
// `b_row` and `c_row` elements apart. Each element is one sum in the order of k.
inline void tile_product(std::int64_t m, std::int64_t n, std::int64_t k, TileOperand a,
                         const float* b, std::int64_t b_row, float* c, std::int64_t c_row,
                         bool add) {
  std::int64_t j = 0;
  for (; j + kTileVectors * kLanes <= n; j += kTileVectors * kLanes) {
    product_of_columns<kTileVectors>(m, k, a, b + j, b_row, c + j, c_row, add, Whole{});
  }
  for (; j + kLanes <= n; j += kLanes) {
    product_of_columns<1>(m, k, a, b + j, b_row, c + j, c_row, add, Whole{});
  }
  if (j < n) {
    product_of_columns<1>(m, k, a, b + j, b_row, c + j, c_row, add, Part{n - j});
  }
}

}  // namespace ebb::cpu::EBB_ISA
