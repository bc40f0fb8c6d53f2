// What bytes are for: the key by which device and host memory are accounted.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ebb {

enum class Purpose : std::uint8_t {
  kParameters,
  kGradients,  // Of parameters; gradients of activations are activations.
  kOptimizer,
  kActivations,  // Saved tensors, boundary gradients, transients, batches.
  kWorkspace,
  kStaging,  // Host only: bounce buffers and the like.
};
inline constexpr std::size_t kPurposes = 6;

// Whether bytes for this count as activations: all do but parameters, their gradients and
// optimizer state.
constexpr bool is_activation(Purpose purpose) noexcept {
  return purpose != Purpose::kParameters && purpose != Purpose::kGradients &&
         purpose != Purpose::kOptimizer;
}

// The name that reports use: "parameters", "gradients", ...
const char* name(Purpose purpose) noexcept;

// Bytes for each purpose.
struct BytesByPurpose {
  std::array<std::size_t, kPurposes> bytes{};

  std::size_t& operator[](Purpose purpose) {
    return bytes[static_cast<std::size_t>(purpose)];
  }
  std::size_t operator[](Purpose purpose) const {
    return bytes[static_cast<std::size_t>(purpose)];
  }
  std::size_t total() const;

  // Of purposes for which is_activation().
  std::size_t activations() const;
};

}  // namespace ebb
