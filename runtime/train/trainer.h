// Trains GPT-2 on a text, step by step.
//
// Within a step the host only submits. A step's end is the end of the optimizer's last op;
// by then the next step's first batch is on its way.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "allocator/pinned_pool.h"
#include "runtime/autograd/saved_tensor_hooks.h"
#include "runtime/nn/gpt2.h"
#include "runtime/train/adamw.h"
#include "runtime/train/batch_feeder.h"
#include "runtime/train/gradient_verifier.h"
#include "runtime/train/schedule.h"
#include "runtime/train/text_data.h"

namespace ebb::train {

struct TrainOptions {
  std::int64_t batch = 8;
  std::int64_t seq = 256;
  std::int64_t accumulate = 1;
  std::uint64_t seed = 1;
  Schedule schedule;
  AdamWOptions optimizer;
  std::vector<nn::CheckpointSegment> segments;
};

struct StepResult {
  std::int64_t step = 0;                  // From 0.
  std::optional<double> loss;             // Mean over the micro-batches; none when dry.
  std::optional<std::uint64_t> checksum;  // Of all gradients before clipping; likewise.
  Event border;                           // The end of the step.
  double wall_seconds = 0;                // Without looking on.
};

// One thread at a time. What it is given outlives it.
class Trainer {
 public:
  // `data` may be null on a dry device, whose batches hold nothing; `hooks` (what is saved
  // goes through them, and layers in no segment are recomputed where they ask for it) and
  // `verifier` may be null.
  Trainer(device::Device& device, PinnedPool& pool, const nn::Gpt2& model,
          const TextData* data, const TrainOptions& options,
          autograd::SavedTensorHooks* hooks, GradientVerifier* verifier);

  // Runs the next step, and returns when the device has ended it. Throws what went wrong in
  // it.
  StepResult step();

 private:
  RandomKey key(std::int64_t number) const;
  void send(std::int64_t number);
  void submit(std::int64_t first);
  void verify(std::int64_t first, const GradientProbe& probe);

  device::Device& device_;
  const nn::Gpt2& model_;
  const TextData* const data_;
  const TrainOptions options_;
  autograd::SavedTensorHooks* const hooks_;
  GradientVerifier* const verifier_;
  BatchFeeder feeder_;
  Tensor scale_;
  AdamW optimizer_;
  std::int64_t steps_ = 0;
};

}  // namespace ebb::train
