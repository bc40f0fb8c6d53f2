#include "runtime/train/sample.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "allocator/error.h"
#include "kernels/philox.h"
#include "runtime/autograd/autograd.h"
#include "runtime/tensor/launch.h"
#include "runtime/train/micro_batch.h"
#include "runtime/train/tokenizer.h"

namespace ebb::train {
namespace {

// Keeps these draws apart from those of batches and dropout, which have the same seed.
constexpr std::uint32_t kDomain = 0x73616d70U;

std::vector<float> on_host(const Tensor& tensor) {
  EBB_CHECK(tensor.dtype() == DType::kF32, kInvalidArgument, "a result of type ",
            name(tensor.dtype()), " is not read here");
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  tensor::copy_to_host(tensor, values.data());
  return values;
}

}  // namespace

std::int64_t draw(std::span<const float> logits, double temperature, std::uint32_t number) {
  const auto likeliest = std::max_element(logits.begin(), logits.end());
  if (temperature == 0) return likeliest - logits.begin();
  const auto weight = [&](float logit) {
    return std::exp((static_cast<double>(logit) - static_cast<double>(*likeliest)) /
                    temperature);
  };
  double total = 0;
  for (const float logit : logits) total += weight(logit);
  const double target = (static_cast<double>(number) + 0.5) / 4294967296.0 * total;
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    sum += weight(logits[i]);
    if (sum > target) return static_cast<std::int64_t>(i);
  }
  return likeliest - logits.begin();
}

std::string sample_text(const nn::Gpt2& model, std::span<const std::int32_t> prompt,
                        const SampleOptions& options) {
  EBB_CHECK(!prompt.empty(), kInvalidArgument, "there is no prompt to continue");
  device::Device& device = model.parameters().front().tensor.device();
  const autograd::NoGrad no_gradients;
  const autograd::TrainingScope evaluation(false);
  const auto context =
      static_cast<std::size_t>(std::min(options.context, model.config().positions));
  std::vector<std::int32_t> tokens(prompt.begin(), prompt.end());
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const std::size_t length = std::min(tokens.size(), context);
    const Tensor seen =
        on_device(device, std::span<const std::int32_t>(tokens).last(length), 1,
                  static_cast<std::int64_t>(length));
    const std::vector<float> logits = on_host(model.next_logits(seen));
    const PhiloxBlock drawn = philox4x32({static_cast<std::uint32_t>(i), 0, kDomain, 0},
                                         static_cast<std::uint32_t>(options.seed),
                                         static_cast<std::uint32_t>(options.seed >> 32));
    const std::size_t bytes = std::min<std::size_t>(logits.size(), kByteVocabulary);
    tokens.push_back(static_cast<std::int32_t>(
        draw(std::span(logits).first(bytes), options.temperature, drawn[0])));
  }
  return decode_bytes(std::span<const std::int32_t>(tokens).subspan(prompt.size()));
}

std::optional<double> validation_loss(const nn::Gpt2& model, const TextData& data,
                                      std::int64_t batches, std::int64_t batch) {
  device::Device& device = model.parameters().front().tensor.device();
  const autograd::NoGrad no_gradients;
  const autograd::TrainingScope evaluation(false);
  const auto values = static_cast<std::size_t>(batch * data.seq());
  std::vector<std::int32_t> tokens(values);
  std::vector<std::int32_t> targets(values);
  double total = 0;
  for (std::int64_t i = 0; i < batches; ++i) {
    if (!data.validation_batch(i, batches, {tokens, targets})) return std::nullopt;
    const Tensor loss = model.loss(on_device(device, tokens, batch, data.seq()),
                                   on_device(device, targets, batch, data.seq()));
    total += static_cast<double>(on_host(loss).front());
  }
  return total / static_cast<double>(batches);
}

}  // namespace ebb::train
