#include "allocator/purpose.h"

#include <numeric>

namespace ebb {

const char* name(Purpose purpose) noexcept {
  switch (purpose) {
    case Purpose::kParameters:
      return "parameters";
    case Purpose::kGradients:
      return "gradients";
    case Purpose::kOptimizer:
      return "optimizer";
    case Purpose::kActivations:
      return "activations";
    case Purpose::kWorkspace:
      return "workspace";
    case Purpose::kStaging:
      return "staging";
  }
  return "unknown";
}

std::size_t BytesByPurpose::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
}

std::size_t BytesByPurpose::activations() const {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < kPurposes; ++i) {
    if (is_activation(static_cast<Purpose>(i))) sum += bytes[i];
  }
  return sum;
}

}  // namespace ebb
