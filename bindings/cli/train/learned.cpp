#include "bindings/cli/train/learned.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "allocator/error.h"
#include "runtime/train/sample.h"
#include "runtime/train/tokenizer.h"

namespace ebb::cli {
namespace {

constexpr std::int64_t kBatches = 2;
constexpr std::int64_t kPrompt = 48;

std::int64_t parameters(const nn::Gpt2& model) {
  std::int64_t count = 0;
  for (const nn::Parameter& parameter : model.parameters()) {
    count += parameter.tensor.elements();
  }
  return count;
}

// A sample should not take longer than the training: a large model says less.
std::int64_t sample_tokens(const nn::Gpt2& model) {
  constexpr std::int64_t kWork = 2'000'000'000;
  return std::clamp<std::int64_t>(kWork / parameters(model), 16, 128);
}

}  // namespace

Learned look_at_learned(const nn::Gpt2& model, const train::TextData& data,
                        const config::RunConfig& config) {
  Learned learned;
  const auto unseen = data.validation().empty() ? data.training() : data.validation();
  // No longer than in training: the device has what that needs, and often no more.
  const auto context = std::min<std::int64_t>(kPrompt, config.seq);
  const auto prompt =
      unseen.first(std::min(unseen.size(), static_cast<std::size_t>(context)));
  try {
    learned.validation_loss = train::validation_loss(model, data, kBatches, config.batch);
    learned.text = train::sample_text(
        model, prompt,
        {.tokens = sample_tokens(model), .context = context, .seed = config.seed});
    learned.prompt = train::decode_bytes(prompt);
  } catch (const Error& error) {
    if (error.code() != absl::StatusCode::kResourceExhausted) throw;
    learned.why_not = error.what();
  }
  return learned;
}

std::string to_text(const Learned& learned) {
  std::string text;
  if (learned.validation_loss) {
    absl::StrAppendFormat(&text, "validation loss %.4f\n", *learned.validation_loss);
  }
  if (!learned.why_not.empty()) {
    absl::StrAppend(&text,
                    "no text was sampled, for the device has only what training needs: ",
                    learned.why_not, "\n");
    return text;
  }
  absl::StrAppend(&text, "sample, after \"", train::printable(learned.prompt), "\":\n",
                  train::printable(learned.text), "\n\n");
  return text;
}

}  // namespace ebb::cli
