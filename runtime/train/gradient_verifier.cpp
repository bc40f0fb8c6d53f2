#include "runtime/train/gradient_verifier.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/tensor/launch.h"
#include "runtime/train/micro_batch.h"

namespace ebb::train {
GradientVerifier::GradientVerifier(device::Device& device, const nn::Gpt2Config& config)
    : device_(device), model_(device, config, 0) {
  make_gradients(model_.parameters());
}

void GradientVerifier::verify(std::int64_t step, const GradientProbe& probe,
                              std::span<const VerifyBatch> batches, std::int64_t batch,
                              std::int64_t seq) {
  const nn::Parameters& parameters = model_.parameters();
  EBB_CHECK(probe.weights().size() == parameters.size(), kFailedPrecondition,
            "the probe of step ", step, " kept ", probe.weights().size(),
            " parameters, not ", parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    tensor::copy_from_host(parameters[i].tensor, probe.weights()[i].data());
  }
  begin_gradients(parameters);
  const Tensor scale =
      accumulation_scale(device_, static_cast<std::int64_t>(batches.size()));
  for (const VerifyBatch& micro : batches) {
    const DeviceBatch on{.tokens = on_device(device_, micro.host.tokens, batch, seq),
                         .targets = on_device(device_, micro.host.targets, batch, seq)};
    (void)run_micro_batch(model_, {.batch = on, .key = micro.key, .scale = scale}, {},
                          nullptr);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor gradient = autograd::gradient(parameters[i].tensor);
    std::vector<std::byte> expected(gradient.bytes());
    tensor::copy_to_host(gradient, expected.data());
    compare(step, parameters[i], expected.data(), probe.gradients()[i].data());
  }
  ++figures_.steps;
}

void GradientVerifier::compare(std::int64_t step, const nn::Parameter& parameter,
                               const void* expected, const void* found) {
  if (std::memcmp(expected, found, parameter.tensor.bytes()) == 0) return;
  if (figures_.bit_equal) {
    figures_.first_difference = absl::StrCat("step ", step + 1, ", ", parameter.name);
  }
  figures_.bit_equal = false;
  EBB_CHECK(parameter.tensor.dtype() == DType::kF32, kInternal, "gradients of type ",
            name(parameter.tensor.dtype()), " differ");
  const auto* a = static_cast<const float*>(expected);
  const auto* b = static_cast<const float*>(found);
  for (std::int64_t i = 0; i < parameter.tensor.elements(); ++i) {
    const double difference =
        std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    const bool both = std::isnan(a[i]) && std::isnan(b[i]);
    const double counted = both ? 0
                           : std::isnan(difference)
                               ? std::numeric_limits<double>::infinity()
                               : difference;
    figures_.max_abs_difference = std::max(figures_.max_abs_difference, counted);
  }
}

}  // namespace ebb::train
