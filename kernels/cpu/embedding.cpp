#include "kernels/cpu/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector.h"

namespace ebb::cpu::EBB_ISA {
namespace {

constexpr std::int64_t kRows = 16;
constexpr std::int64_t kStrip = 64;  // Columns.

void require(const EmbeddingShape& s, const std::int32_t* tokens, const char* op) {
  require_f32(s.dtype, op);
  require_positive(s.batch, op, "batch");
  require_positive(s.seq, op, "seq");
  require_positive(s.hidden, op, "hidden");
  require_positive(s.vocabulary, op, "vocabulary");
  require_indices(s.batch * s.seq, tokens, 0, s.vocabulary, op, "token");
}

}  // namespace

void embedding_forward(const EmbeddingShape& s, const std::int32_t* tokens,
                       const void* table, const void* positions, void* out,
                       NativeQueue /*queue*/) {
  require(s, tokens, "embedding_forward");
  parallel_pieces(s.batch * s.seq, kRows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* row = static_cast<const float*>(table) + tokens[i] * s.hidden;
      float* to = static_cast<float*>(out) + i * s.hidden;
      std::memcpy(to, row, static_cast<std::size_t>(s.hidden) * sizeof(float));
      if (positions != nullptr) {
        add_to(s.hidden, static_cast<const float*>(positions) + i % s.seq * s.hidden, to);
      }
    }
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
  // A thread owns a strip of columns, and so adds to each row in the order of the tokens.
  parallel_pieces(s.hidden, kStrip, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < s.batch * s.seq; ++i) {
      const float* from = static_cast<const float*>(dout) + i * s.hidden + begin;
      add_to(end - begin, from,
             static_cast<float*>(d_table) + tokens[i] * s.hidden + begin);
      if (d_positions == nullptr) continue;
      add_to(end - begin, from,
             static_cast<float*>(d_positions) + i % s.seq * s.hidden + begin);
    }
  });
}

}  // namespace ebb::cpu::EBB_ISA
