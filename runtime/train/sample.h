// What a model has learned, in its own words, and how well it predicts unseen text.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "runtime/nn/gpt2.h"
#include "runtime/train/text_data.h"

namespace ebb::train {

struct SampleOptions {
  std::int64_t tokens = 160;  // To generate.
  std::int64_t context = 96;  // The model sees at most so many of the last tokens.
  double temperature = 0.8;   // 0: always the likeliest token.
  std::uint64_t seed = 1;
};

// The index that `logits` at `temperature` give for a random number; the first of the
// likeliest if the temperature is 0. `number` is uniform over all 32-bit values.
std::int64_t draw(std::span<const float> logits, double temperature, std::uint32_t number);

// Continues `prompt` (at least one token) token by token; bytes only, whatever the model's
// vocabulary. Deterministic. The host waits for each token. Throws
// Error{kResourceExhausted} if the device has no room.
std::string sample_text(const nn::Gpt2& model, std::span<const std::int32_t> prompt,
                        const SampleOptions& options);

// The mean loss over `batches` batches of `batch` sequences of the validation text, without
// dropout; nothing if that text is shorter than a sequence.
std::optional<double> validation_loss(const nn::Gpt2& model, const TextData& data,
                                      std::int64_t batches, std::int64_t batch);

}  // namespace ebb::train
