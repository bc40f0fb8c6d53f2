#include "kernels/cpu/check.h"

#include "allocator/error.h"

namespace ebb::cpu {

void require_f32(DType dtype, const char* op) {
  EBB_CHECK(dtype == DType::kF32, kInvalidArgument, op, ": dtype ", name(dtype),
            " is not supported on the CPU; it computes in f32 only so far");
}

void require_positive(std::int64_t size, const char* op, const char* what) {
  EBB_CHECK(size > 0, kInvalidArgument, op, ": ", what, " is ", size,
            ", and must be at least 1");
}

void require_elements(std::int64_t elements, const char* op) {
  EBB_CHECK(elements >= 0, kInvalidArgument, op, ": ", elements, " elements");
}

void require_workspace(const Workspace& workspace, std::size_t bytes, const char* op) {
  EBB_CHECK(workspace.bytes >= bytes && (bytes == 0 || workspace.data != nullptr),
            kInvalidArgument, op, ": the workspace has ", workspace.bytes, " bytes of the ",
            bytes, " it needs");
}

void require_probability(float probability, const char* op) {
  EBB_CHECK(probability >= 0 && probability < 1, kInvalidArgument, op,
            ": a dropout probability of ", probability, " is not in [0, 1)");
}

void require_no_master(const float* master) {
  EBB_CHECK(master == nullptr, kInvalidArgument,
            "adamw: a master copy is for parameters that are not f32");
}

void require_dimensions(int dimensions, int most, const char* op) {
  EBB_CHECK(dimensions >= 0 && dimensions <= most, kInvalidArgument, op, ": ", dimensions,
            " dimensions; at most ", most);
}

void require_attention(const AttentionShape& s, const char* op) {
  require_f32(s.dtype, op);
  require_positive(s.batch, op, "batch");
  require_positive(s.seq, op, "seq");
  require_positive(s.heads, op, "heads");
  require_positive(s.kv_heads, op, "kv_heads");
  require_positive(s.head_size, op, "head_size");
  EBB_CHECK(s.heads % s.kv_heads == 0, kInvalidArgument, op, ": ", s.heads,
            " heads are not a multiple of ", s.kv_heads, " kv_heads");
}

void require_indices(std::int64_t count, const std::int32_t* indices, std::int32_t lowest,
                     std::int64_t vocabulary, const char* op, const char* what) {
  for (std::int64_t i = 0; i < count; ++i) {
    EBB_CHECK(indices[i] >= lowest && indices[i] < vocabulary, kInvalidArgument, op, ": ",
              what, " ", indices[i], " at ", i, " is outside the vocabulary of ",
              vocabulary);
  }
}

}  // namespace ebb::cpu
