// Computes the gradients of a step a second time, on a device without a cap, with nothing
// checkpointed and nothing offloaded, and compares every bit.

#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/nn/gpt2.h"
#include "runtime/train/batch_feeder.h"
#include "runtime/train/gradient_probe.h"

namespace ebb::train {

struct VerifyFigures {
  std::int64_t steps = 0;  // Compared so far.
  bool bit_equal = true;
  double max_abs_difference = 0;  // Infinite where one is NaN and the other is not.
  std::string first_difference;   // "step 3, h.0.attn.c_attn.weight"; empty: none.
};

// One micro-batch of the step: its tokens on the host, and its random numbers.
struct VerifyBatch {
  BatchView host;
  RandomKey key;
};

// One thread at a time. `device` outlives the verifier; its kernels are those of the device
// that is verified, with as many threads.
class GradientVerifier {
 public:
  GradientVerifier(device::Device& device, const nn::Gpt2Config& config);

  // The step whose weights and gradients `probe` kept: `batches` of [batch, seq] each.
  void verify(std::int64_t step, const GradientProbe& probe,
              std::span<const VerifyBatch> batches, std::int64_t batch, std::int64_t seq);

  const VerifyFigures& figures() const noexcept { return figures_; }

 private:
  void compare(std::int64_t step, const nn::Parameter& parameter, const void* expected,
               const void* found);

  device::Device& device_;
  nn::Gpt2 model_;
  VerifyFigures figures_;
};

}  // namespace ebb::train
