// What every entry of the CPU's table asks of its arguments. Each throws
// Error{kInvalidArgument} that names `op`.
//
// None is inline: op files are compiled once for each instruction set, and must not leave
// functions behind that the linker could take for everybody's.

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace ebb::cpu {

// The kernels of this folder compute in f32, and say so for any other type.
void require_f32(DType dtype, const char* op);
void require_positive(std::int64_t size, const char* op, const char* what);
void require_elements(std::int64_t elements, const char* op);
void require_workspace(const Workspace& workspace, std::size_t bytes, const char* op);
void require_probability(float probability, const char* op);
void require_no_master(const float* master);  // adamw of f32 has none.
void require_dimensions(int dimensions, int most, const char* op);
void require_attention(const AttentionShape& shape, const char* op);

// Each of indices[count] is at least `lowest` and below `vocabulary`.
void require_indices(std::int64_t count, const std::int32_t* indices, std::int32_t lowest,
                     std::int64_t vocabulary, const char* op, const char* what);

}  // namespace ebb::cpu
