// What a trained model is shown to have learned: its loss on unseen text, and a sample.

#pragma once

#include <optional>
#include <string>

#include "bindings/config/run_config.h"
#include "runtime/nn/gpt2.h"
#include "runtime/train/text_data.h"

namespace ebb::cli {

struct Learned {
  std::optional<double> validation_loss;  // None where the text is too short for it.
  std::string prompt;                     // Of the validation text.
  std::string text;                       // How the model goes on.
  std::string why_not;                    // Empty, or why there is none of it.
};

// Uses the device of `model`, with what memory is free there: a device without room is an
// answer, not an error.
Learned look_at_learned(const nn::Gpt2& model, const train::TextData& data,
                        const config::RunConfig& config);

// For a terminal; ends with a line break.
std::string to_text(const Learned& learned);

}  // namespace ebb::cli
