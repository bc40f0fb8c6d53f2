// Tensors of known values, and their values back.

#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/philox.h"
#include "runtime/autograd/autograd.h"
#include "runtime/tensor/launch.h"
#include "runtime/tensor/tensor.h"

namespace ebb::test {

// An op that only has a name.
inline device::OpInfo op_named(const char* name) {
  device::OpInfo op;
  op.name = name;
  return op;
}

inline Tensor tensor_of(device::Device& device, tensor::Shape shape,
                        const std::vector<float>& values,
                        Purpose purpose = Purpose::kActivations) {
  Tensor tensor = Tensor::empty(device, std::move(shape), DType::kF32, purpose);
  tensor::copy_from_host(tensor, values.data());
  return tensor;
}

inline Tensor tokens_of(device::Device& device, tensor::Shape shape,
                        const std::vector<std::int32_t>& values) {
  Tensor tensor = Tensor::empty(device, std::move(shape), DType::kI32);
  tensor::copy_from_host(tensor, values.data());
  return tensor;
}

// Contiguous tensors only.
inline std::vector<float> values_of(const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  tensor::copy_to_host(tensor, values.data());
  return values;
}

// Numbers in [-1, 1), a function of `seed`.
inline std::vector<float> random_values(std::int64_t count, std::uint64_t seed) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const PhiloxBlock bits = random_block({.seed = seed}, 0, static_cast<std::uint64_t>(i));
    values.push_back(static_cast<float>(bits[0] >> 8) / 8388608.0F - 1.0F);
  }
  return values;
}

inline std::int64_t count_of(const tensor::Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

inline Tensor random_tensor(device::Device& device, const tensor::Shape& shape,
                            std::uint64_t seed, Purpose purpose = Purpose::kActivations) {
  return tensor_of(device, shape, random_values(count_of(shape), seed), purpose);
}

// A leaf that needs a gradient.
inline Tensor random_leaf(device::Device& device, const tensor::Shape& shape,
                          std::uint64_t seed, Purpose purpose = Purpose::kActivations) {
  Tensor leaf = random_tensor(device, shape, seed, purpose);
  autograd::set_requires_grad(leaf, true);
  return leaf;
}
inline Tensor random_parameter(device::Device& device, const tensor::Shape& shape,
                               std::uint64_t seed) {
  return random_leaf(device, shape, seed, Purpose::kParameters);
}

}  // namespace ebb::test
