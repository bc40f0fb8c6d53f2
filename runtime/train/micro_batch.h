// Forward and backward of one micro-batch: what the trainer and its verifier have in
// common.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/philox.h"
#include "runtime/autograd/saved_tensor_hooks.h"
#include "runtime/nn/gpt2.h"
#include "runtime/train/batch_feeder.h"

namespace ebb::train {

struct MicroBatch {
  DeviceBatch batch;
  RandomKey key;
  // f32 [1]: what the loss's gradient begins with, 1 / the number of micro-batches;
  // undefined for 1.
  Tensor scale;
};

// i32 [batch, seq], copied from `values` (batch * seq of them) while the host waits.
Tensor on_device(device::Device& device, std::span<const std::int32_t> values,
                 std::int64_t batch, std::int64_t seq);

// Adds the gradients of the mean loss of `micro`, times its scale, to the parameters', and
// returns the loss (unscaled). What is saved goes through `hooks` (null: stays).
Tensor run_micro_batch(const nn::Gpt2& model, const MicroBatch& micro,
                       const std::vector<nn::CheckpointSegment>& segments,
                       autograd::SavedTensorHooks* hooks);

// f32 [1] with the value 1 / `accumulate`, or undefined if that is 1.
Tensor accumulation_scale(device::Device& device, std::int64_t accumulate);

// Gives each parameter a gradient buffer, which lives as long as the parameter.
void make_gradients(const nn::Parameters& parameters);

// The next backward overwrites the gradients.
void begin_gradients(const nn::Parameters& parameters);

}  // namespace ebb::train
