#include "kernels/cpu/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector.h"

namespace ebb::cpu::EBB_ISA {
namespace {

// Sums leaves in the order given as a binary counter adds: two of a level make one of the
// next. The tree depends on their number alone.
class PairwiseSum {
 public:
  void add(double leaf) {
    int level = 0;
    for (std::uint64_t bits = count_; (bits & 1) != 0; bits >>= 1) leaf += levels_[level++];
    levels_[level] = leaf;
    ++count_;
  }

  double total() const {
    double sum = 0;
    for (int level = 0; (count_ >> level) != 0; ++level) {
      if ((count_ >> level & 1) != 0) sum += levels_[level];
    }
    return sum;
  }

 private:
  double levels_[63] = {};
  std::uint64_t count_ = 0;
};

constexpr std::int64_t kLeaf = 4096;   // Elements.
constexpr std::int64_t kChunks = 256;  // At most; each is summed by one thread.

// The sum of leaf(begin, count) over [0, elements).
template <typename Leaf>
double tree_sum(std::int64_t elements, const Leaf& leaf) {
  const std::int64_t leaves = (elements + kLeaf - 1) / kLeaf;
  const std::int64_t chunk = leaves > kChunks ? (leaves + kChunks - 1) / kChunks : 1;
  double sums[kChunks] = {};
  parallel_pieces(leaves, chunk, [&](std::int64_t first, std::int64_t last) {
    PairwiseSum sum;
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t left = elements - i * kLeaf;
      sum.add(leaf(i * kLeaf, left < kLeaf ? left : kLeaf));
    }
    sums[first / chunk] = sum.total();
  });
  PairwiseSum total;
  for (const double part : sums) total.add(part);
  return total.total();
}

constexpr std::int64_t kBlockRows = 256;
constexpr std::int64_t kStrip = 128;  // Columns that one thread sums.

}  // namespace

void column_sums(std::int64_t rows, std::int64_t columns, const float* x, Into into,
                 float* sums) {
  parallel_pieces(columns, kStrip, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t width = end - begin;
    // As PairwiseSum does, but for a strip. 2^40 rows would need 32 levels.
    float levels[32][kStrip];
    std::uint64_t blocks = 0;
    for (std::int64_t first = 0; first < rows; first += kBlockRows, ++blocks) {
      float leaf[kStrip] = {};
      const std::int64_t last = first + kBlockRows < rows ? first + kBlockRows : rows;
      for (std::int64_t row = first; row < last; ++row) {
        add_to(width, x + row * columns + begin, leaf);
      }
      int level = 0;
      for (std::uint64_t bits = blocks; (bits & 1) != 0; bits >>= 1, ++level) {
        add_to(width, levels[level], leaf);
      }
      std::memcpy(levels[level], leaf, sizeof leaf);
    }
    float total[kStrip] = {};
    for (int level = 0; (blocks >> level) != 0; ++level) {
      if ((blocks >> level & 1) != 0) add_to(width, levels[level], total);
    }
    if (into == Into::kAdd) add_to(width, sums + begin, total);
    std::memcpy(sums + begin, total, static_cast<std::size_t>(width) * sizeof(float));
  });
}

void sum(DType dtype, std::int64_t elements, const void* x, float factor, float* out,
         NativeQueue /*queue*/) {
  require_f32(dtype, "sum");
  require_elements(elements, "sum");
  const double total = tree_sum(elements, [=](std::int64_t begin, std::int64_t count) {
    const float* in = static_cast<const float*>(x) + begin;
    return sum_terms(count,
                     [=](auto access, std::int64_t i) { return access.load(in + i); });
  });
  out[0] = static_cast<float>(factor * total);
}

void sum_of_squares(DType dtype, std::int64_t elements, const void* x, float* out,
                    NativeQueue /*queue*/) {
  require_f32(dtype, "sum_of_squares");
  require_elements(elements, "sum_of_squares");
  const double total = tree_sum(elements, [=](std::int64_t begin, std::int64_t count) {
    const float* in = static_cast<const float*>(x) + begin;
    return sum_terms(count, [=](auto access, std::int64_t i) {
      const Vector v = access.load(in + i);
      return v * v;
    });
  });
  out[0] = static_cast<float>(total);
}

}  // namespace ebb::cpu::EBB_ISA
