#include <algorithm>
#include <cstring>

#include "kernels/cpu/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

namespace ebb::cpu {
namespace {

constexpr std::int64_t kStrip = 64;  // Columns.

void require(const EmbeddingShape& s, const std::int32_t* tokens, const char* op) {
  require_f32(s.dtype, op);
  require_positive(s.batch, op, "batch");
  require_positive(s.seq, op, "seq");
  require_positive(s.hidden, op, "hidden");
  require_positive(s.vocabulary, op, "vocabulary");
  for (std::int64_t i = 0; i < s.batch * s.seq; ++i) {
    EBB_CHECK(tokens[i] >= 0 && tokens[i] < s.vocabulary, kInvalidArgument, op, ": token ",
              tokens[i], " at ", i, " is outside the vocabulary of ", s.vocabulary);
  }
}

}  // namespace

void embedding_forward(const EmbeddingShape& s, const std::int32_t* tokens,
                       const void* table, const void* positions, void* out,
                       NativeQueue /*queue*/) {
  require(s, tokens, "embedding_forward");
  const auto* rows = static_cast<const float*>(table);
  const auto* learned = static_cast<const float*>(positions);
  auto* y = static_cast<float*>(out);
  parallel_for(s.batch * s.seq, [&](std::int64_t i) {
    const float* row = rows + tokens[i] * s.hidden;
    float* to = y + i * s.hidden;
    if (learned == nullptr) {
      std::copy(row, row + s.hidden, to);
      return;
    }
    const float* position = learned + i % s.seq * s.hidden;
    for (std::int64_t h = 0; h < s.hidden; ++h) to[h] = row[h] + position[h];
  });
}

std::size_t embedding_backward_workspace(const EmbeddingShape& s) {
  require_f32(s.dtype, "embedding_backward");
  return 0;
}

void embedding_backward(const EmbeddingShape& s, const std::int32_t* tokens,
                        const void* dout, void* d_table, void* d_positions,
                        Workspace /*workspace*/, NativeQueue /*queue*/) {
  require(s, tokens, "embedding_backward");
  const auto* gradient = static_cast<const float*>(dout);
  auto* rows = static_cast<float*>(d_table);
  auto* learned = static_cast<float*>(d_positions);
  // A thread owns a strip of columns, and so adds to each row in the order of the tokens.
  parallel_pieces(s.hidden, kStrip, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < s.batch * s.seq; ++i) {
      const float* from = gradient + i * s.hidden;
      float* to = rows + tokens[i] * s.hidden;
      for (std::int64_t h = begin; h < end; ++h) to[h] += from[h];
      if (learned == nullptr) continue;
      float* position = learned + i % s.seq * s.hidden;
      for (std::int64_t h = begin; h < end; ++h) position[h] += from[h];
    }
  });
}

}  // namespace ebb::cpu
