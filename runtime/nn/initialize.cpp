#include "runtime/nn/initialize.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <numbers>

#include "allocator/error.h"
#include "kernels/philox.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/primitive.h"
#include "runtime/tensor/launch.h"

namespace ebb::nn {
namespace {

// Two numbers in (0, 1) to two normal ones.
void box_muller(std::uint32_t a, std::uint32_t b, float* out) {
  constexpr float kUnit = 1.0F / 4294967296.0F;
  const float u = (static_cast<float>(a >> 8) + 0.5F) * 256.0F * kUnit;
  const float angle =
      2.0F * std::numbers::pi_v<float> * static_cast<float>(b >> 8) * 256.0F * kUnit;
  const float radius = std::sqrt(-2.0F * std::log(u));
  out[0] = radius * std::cos(angle);
  out[1] = radius * std::sin(angle);
}

std::array<float, 4> normals(const RandomKey& key, std::size_t block) {
  const PhiloxBlock bits = random_block(key, 0, block);
  std::array<float, 4> values;
  box_muller(bits[0], bits[1], values.data());
  box_muller(bits[2], bits[3], values.data() + 2);
  return values;
}

// To nearest, ties to even.
std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

template <typename T, typename Convert>
void copy_normals(const Tensor& tensor, float deviation, const RandomKey& key,
                  Convert convert) {
  const auto elements = static_cast<std::size_t>(tensor.elements());
  // Not touched on a dry device: pages that nobody writes cost nothing.
  const std::unique_ptr<T[]> host(new T[elements]);
  if (!tensor.device().capability().dry) {
    for (std::size_t i = 0; i < elements; i += 4) {
      const std::array<float, 4> values = normals(key, i / 4);
      for (std::size_t lane = 0; lane < 4 && i + lane < elements; ++lane) {
        host[i + lane] = convert(deviation * values[lane]);
      }
    }
  }
  tensor::copy_from_host(tensor, host.get());
}

}  // namespace

void set_normal(const Tensor& tensor, float standard_deviation, std::uint64_t seed,
                std::uint32_t parameter) {
  // A step that no training reaches, so that no dropout draws the same numbers.
  const RandomKey key{seed, std::numeric_limits<std::uint32_t>::max(), parameter, 0};
  switch (tensor.dtype()) {
    case DType::kF32:
      copy_normals<float>(tensor, standard_deviation, key, [](float v) { return v; });
      return;
    case DType::kBF16:
      copy_normals<std::uint16_t>(tensor, standard_deviation, key, to_bf16);
      return;
    case DType::kI32:
    case DType::kI64:
    case DType::kU8:
      break;
  }
  throw Error(absl::StatusCode::kInvalidArgument,
              absl::StrCat("parameters are f32 or bf16, not ", name(tensor.dtype())));
}

void set_constant(const Tensor& tensor, float value) {
  const autograd::PhaseScope phase(device::Phase::kOther);
  autograd::fill(tensor, value);
  tensor::written_in_place(tensor);
}

}  // namespace ebb::nn
