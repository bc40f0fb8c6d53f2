// AdamW on the device, with the gradient clipped by its global norm.

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/nn/parameters.h"
#include "runtime/tensor/tensor.h"

namespace ebb::train {

struct AdamWOptions {
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float weight_decay = 0.1F;  // Of the parameters that decay (nn::Parameter::decay).
  float max_norm = 1.0F;      // Of all gradients together.
};

// Holds the state, two f32 for each element, as Purpose::kOptimizer. Parameters are f32:
// Error{kInvalidArgument} for any other. The norm never leaves the device, so that the host
// does not wait for it. One thread at a time. `parameters` outlives the optimizer.
class AdamW {
 public:
  AdamW(const nn::Parameters& parameters, const AdamWOptions& options);

  // Queues one step of the parameters along their gradients, in place. Every parameter must
  // have a gradient: Error{kFailedPrecondition}.
  void step(double learning_rate);

  std::int64_t steps() const noexcept { return steps_; }
  // The norm of the last step's gradient before it was clipped: f32 [1].
  const Tensor& norm() const noexcept { return norm_; }

 private:
  struct State {
    Tensor m;
    Tensor v;
  };

  const nn::Parameters& parameters_;
  const AdamWOptions options_;
  std::vector<State> states_;
  Tensor squares_;  // f32 [parameters]
  Tensor norm_;     // f32 [1]
  Tensor factor_;   // f32 [1]
  std::int64_t steps_ = 0;
};

}  // namespace ebb::train
