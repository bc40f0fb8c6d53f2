#include "runtime/tensor/hash_bytes.h"

#include <bit>
#include <cstring>

namespace ebb::tensor {
namespace {

// Odd constants with mixed bits, of xxHash64 (Collet).
constexpr std::uint64_t kMultiply = 0x9E3779B185EBCA87U;
constexpr std::uint64_t kAlso = 0xC2B2AE3D27D4EB4FU;

std::uint64_t finish(std::uint64_t hash) {
  hash ^= hash >> 33;
  hash *= kAlso;
  hash ^= hash >> 29;
  return hash;
}

}  // namespace

std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed) {
  const auto* at = static_cast<const std::byte*>(data);
  std::uint64_t hash = seed + kMultiply + bytes;
  for (; bytes >= sizeof(std::uint64_t);
       bytes -= sizeof(std::uint64_t), at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    hash = std::rotl((hash ^ word) * kMultiply, 31);
  }
  std::uint64_t rest = 0;
  std::memcpy(&rest, at, bytes);
  return finish((hash ^ rest) * kMultiply);
}

}  // namespace ebb::tensor
