// The element types of tensors.

#pragma once

#include <cstddef>
#include <cstdint>

namespace ebb {

enum class DType : std::uint8_t { kF32, kBF16, kI32, kI64, kU8 };

constexpr std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
      return 2;
    case DType::kI64:
      return 8;
    case DType::kU8:
      return 1;
  }
  return 0;
}

constexpr bool is_floating(DType dtype) noexcept {
  return dtype == DType::kF32 || dtype == DType::kBF16;
}

// "f32", "bf16", "i32", "i64", "u8".
constexpr const char* name(DType dtype) noexcept {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
    case DType::kU8:
      return "u8";
  }
  return "?";
}

}  // namespace ebb
