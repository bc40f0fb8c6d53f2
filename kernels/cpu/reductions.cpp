#include <array>

#include "kernels/cpu/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

namespace ebb::cpu {
namespace {

// Sums leaves in the order given as a binary counter adds: two of a level make one of the
// next. The tree depends on their number alone, and 2^32 leaves need 32 partial sums.
class PairwiseSum {
 public:
  void add(double leaf) {
    std::size_t level = 0;
    for (std::uint64_t bit = count_; (bit & 1) != 0; bit >>= 1) leaf += levels_[level++];
    levels_[level] = leaf;
    ++count_;
  }

  double total() const {
    double sum = 0;
    std::size_t level = 0;
    for (std::uint64_t bits = count_; bits != 0; bits >>= 1, ++level) {
      if ((bits & 1) != 0) sum += levels_[level];
    }
    return sum;
  }

 private:
  std::array<double, 64> levels_{};
  std::uint64_t count_ = 0;
};

constexpr std::int64_t kLeaf = 4096;   // Elements.
constexpr std::int64_t kChunks = 256;  // At most; each is summed by one thread.

// The sum of leaf(begin, end) over [0, elements).
template <typename Leaf>
double tree_sum(std::int64_t elements, const Leaf& leaf) {
  const std::int64_t leaves = (elements + kLeaf - 1) / kLeaf;
  const std::int64_t chunk = std::max<std::int64_t>(1, (leaves + kChunks - 1) / kChunks);
  std::array<double, kChunks> sums{};
  parallel_pieces(leaves, chunk, [&](std::int64_t first, std::int64_t last) {
    PairwiseSum sum;
    for (std::int64_t i = first; i < last; ++i) {
      sum.add(leaf(i * kLeaf, std::min(elements, (i + 1) * kLeaf)));
    }
    sums[static_cast<std::size_t>(first / chunk)] = sum.total();
  });
  PairwiseSum total;
  for (const double part : sums) total.add(part);
  return total.total();
}

constexpr std::int64_t kBlockRows = 256;
constexpr std::int64_t kStrip = 64;  // Columns that are summed together.
using Strip = std::array<float, kStrip>;

}  // namespace

void column_sums(std::int64_t rows, std::int64_t columns, const float* x, Into into,
                 float* sums) {
  parallel_pieces(columns, kStrip, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t width = end - begin;
    std::array<Strip, 40> levels;
    std::uint64_t blocks = 0;
    for (std::int64_t first = 0; first < rows; first += kBlockRows, ++blocks) {
      Strip leaf{};
      for (std::int64_t row = first; row < std::min(rows, first + kBlockRows); ++row) {
        const float* in = x + row * columns + begin;
        for (std::int64_t i = 0; i < width; ++i) leaf[static_cast<std::size_t>(i)] += in[i];
      }
      std::size_t level = 0;
      for (std::uint64_t bit = blocks; (bit & 1) != 0; bit >>= 1, ++level) {
        for (std::size_t i = 0; i < kStrip; ++i) leaf[i] += levels[level][i];
      }
      levels[level] = leaf;
    }
    Strip total{};
    for (std::size_t level = 0; (blocks >> level) != 0; ++level) {
      if ((blocks >> level & 1) == 0) continue;
      for (std::size_t i = 0; i < kStrip; ++i) total[i] += levels[level][i];
    }
    for (std::int64_t i = 0; i < width; ++i) {
      const float value = total[static_cast<std::size_t>(i)];
      sums[begin + i] = into == Into::kAdd ? sums[begin + i] + value : value;
    }
  });
}

void sum(DType dtype, std::int64_t elements, const void* x, float factor, float* out,
         NativeQueue /*queue*/) {
  require_f32(dtype, "sum");
  require_elements(elements, "sum");
  const auto* in = static_cast<const float*>(x);
  out[0] = static_cast<float>(factor *
                              tree_sum(elements, [=](std::int64_t begin, std::int64_t end) {
                                double leaf = 0;
                                for (std::int64_t i = begin; i < end; ++i) leaf += in[i];
                                return leaf;
                              }));
}

void sum_of_squares(DType dtype, std::int64_t elements, const void* x, float* out,
                    NativeQueue /*queue*/) {
  require_f32(dtype, "sum_of_squares");
  require_elements(elements, "sum_of_squares");
  const auto* in = static_cast<const float*>(x);
  out[0] = static_cast<float>(tree_sum(elements, [=](std::int64_t begin, std::int64_t end) {
    double leaf = 0;
    for (std::int64_t i = begin; i < end; ++i) leaf += double{in[i]} * in[i];
    return leaf;
  }));
}

}  // namespace ebb::cpu
