// Checksums of what tensors hold.

#pragma once

#include <cstddef>
#include <cstdint>

namespace ebb::tensor {

// A 64-bit hash of bytes, read as little-endian words (multiply and rotate, by
// xxHash64's constants). Not for adversaries. hash_bytes(b, hash_bytes(a)) depends on the
// order of both.
std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed = 0);

}  // namespace ebb::tensor
