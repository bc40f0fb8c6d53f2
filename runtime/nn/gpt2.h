// GPT-2 (Radford et al. 2019): pre-norm transformer, learned positions, output head tied to
// the token embedding.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/nn/layers.h"
#include "runtime/nn/parameters.h"
#include "runtime/nn/segments.h"

namespace ebb::nn {

struct Gpt2Config {
  std::int64_t layers = 12;
  std::int64_t heads = 6;
  std::int64_t hidden = 384;
  std::int64_t vocabulary = 256;
  std::int64_t positions = 1024;
  float dropout = 0.1F;
  DType dtype = DType::kF32;
};

// "gpt2-nano" (bytes), "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl".
std::vector<std::string> gpt2_names();
// Error{kInvalidArgument} that lists the names.
Gpt2Config gpt2_config(const std::string& name);

// Stages (autograd::stage()): -1 the embedding, 0 ... layers - 1 the layers, layers the
// final norm and the head.
class Gpt2 {
 public:
  // Standard initialisation (normal 0.02, residual projections / sqrt(2 layers), zero
  // biases), from `seed`. Parameters need gradients. Throws Error{kInvalidArgument} for a
  // shape that is none (hidden not a multiple of heads, a size of 0, ...).
  Gpt2(device::Device& device, const Gpt2Config& config, std::uint64_t seed);

  const Gpt2Config& config() const noexcept { return config_; }
  const Parameters& parameters() const noexcept { return parameters_; }

  // The mean loss [1] of a batch: tokens and targets [batch, seq], i32; a target of -1 does
  // not count. `segments` are checkpointed, each as a whole. Graphs may outlive the model.
  Tensor loss(const Tensor& tokens, const Tensor& targets,
              const std::vector<CheckpointSegment>& segments = {}) const;
  // The logits of the last position: [batch, vocabulary]; without gradients or dropout.
  Tensor next_logits(const Tensor& tokens) const;

 private:
  Tensor hidden(const Tensor& tokens, const std::vector<CheckpointSegment>& segments) const;

  Gpt2Config config_;
  Parameters parameters_;
  Embedding embedding_;
  std::shared_ptr<const std::vector<Block>> blocks_;  // Shared with the segments of graphs.
  LayerNorm ln_f_;
};

}  // namespace ebb::nn
