#include <array>
#include <cstring>

#include "kernels/cpu/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

namespace ebb::cpu::EBB_ISA {
namespace {

constexpr int kMaxDimensions = 8;

// A copy with as few dimensions as say the same. The last is the fastest.
struct Layout {
  int dimensions = 0;
  std::array<std::int64_t, kMaxDimensions> shape{};
  std::array<std::int64_t, kMaxDimensions> x{};  // Strides.
  std::array<std::int64_t, kMaxDimensions> y{};
};

// Drops dimensions of size 1, and joins neighbours that lie without a gap in both.
Layout coalesce(int dimensions, const std::int64_t* shape, const std::int64_t* x,
                const std::int64_t* y) {
  Layout layout;
  for (int d = 0; d < dimensions; ++d) {
    if (shape[d] == 1) continue;
    const auto last =
        static_cast<std::size_t>(layout.dimensions > 0 ? layout.dimensions - 1 : 0);
    if (layout.dimensions > 0 && layout.x[last] == shape[d] * x[d] &&
        layout.y[last] == shape[d] * y[d]) {
      layout.shape[last] *= shape[d];
      layout.x[last] = x[d];
      layout.y[last] = y[d];
      continue;
    }
    const auto next = static_cast<std::size_t>(layout.dimensions++);
    layout.shape[next] = shape[d];
    layout.x[next] = x[d];
    layout.y[next] = y[d];
  }
  return layout;
}

template <typename T>
void copy_rows(const Layout& layout, const T* x, T* y) {
  const int outer = layout.dimensions > 0 ? layout.dimensions - 1 : 0;
  const auto last = static_cast<std::size_t>(outer);
  const bool any = layout.dimensions > 0;
  const std::int64_t width = any ? layout.shape[last] : 1;
  const std::int64_t x_step = any ? layout.x[last] : 1;
  const std::int64_t y_step = any ? layout.y[last] : 1;
  std::int64_t rows = 1;
  for (std::size_t d = 0; d < last; ++d) rows *= layout.shape[d];
  parallel_for(rows, [&](std::int64_t row) {
    const T* from = x;
    T* to = y;
    for (std::size_t d = last; d-- > 0;) {
      const std::int64_t at = row % layout.shape[d];
      row /= layout.shape[d];
      from += at * layout.x[d];
      to += at * layout.y[d];
    }
    if (x_step == 1 && y_step == 1) {
      std::memcpy(to, from, static_cast<std::size_t>(width) * sizeof(T));
    } else {
      for (std::int64_t i = 0; i < width; ++i) to[i * y_step] = from[i * x_step];
    }
  });
}

}  // namespace

void copy_strided(DType dtype, int dimensions, const std::int64_t* shape, const void* x,
                  const std::int64_t* x_strides, void* y, const std::int64_t* y_strides,
                  NativeQueue /*queue*/) {
  require_dimensions(dimensions, kMaxDimensions, "copy_strided");
  for (int d = 0; d < dimensions; ++d) {
    require_elements(shape[d], "copy_strided");
    if (shape[d] == 0) return;
  }
  const Layout layout = coalesce(dimensions, shape, x_strides, y_strides);
  switch (size_of(dtype)) {
    case 1:
      copy_rows(layout, static_cast<const std::uint8_t*>(x), static_cast<std::uint8_t*>(y));
      break;
    case 2:
      copy_rows(layout, static_cast<const std::uint16_t*>(x),
                static_cast<std::uint16_t*>(y));
      break;
    case 4:
      copy_rows(layout, static_cast<const std::uint32_t*>(x),
                static_cast<std::uint32_t*>(y));
      break;
    default:
      copy_rows(layout, static_cast<const std::uint64_t*>(x),
                static_cast<std::uint64_t*>(y));
  }
}

}  // namespace ebb::cpu::EBB_ISA
