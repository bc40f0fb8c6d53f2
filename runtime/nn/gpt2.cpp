#include "runtime/nn/gpt2.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops/ops.h"
#include "runtime/nn/initialize.h"

namespace ebb::nn {
namespace {

void check(const Gpt2Config& c) {
  const std::pair<const char*, std::int64_t> sizes[] = {{"layers", c.layers},
                                                        {"heads", c.heads},
                                                        {"hidden", c.hidden},
                                                        {"vocabulary", c.vocabulary},
                                                        {"positions", c.positions}};
  for (const auto& [what, size] : sizes) {
    EBB_CHECK(size >= 1 && size <= std::numeric_limits<std::int32_t>::max(),
              kInvalidArgument, "GPT-2: ", what, " is ", size, "; it must be from 1 to ",
              std::numeric_limits<std::int32_t>::max());
  }
  EBB_CHECK(c.hidden % c.heads == 0, kInvalidArgument, "GPT-2: hidden ", c.hidden,
            " is not a multiple of ", c.heads, " heads");
  EBB_CHECK(c.dropout >= 0 && c.dropout < 1, kInvalidArgument, "GPT-2: dropout ", c.dropout,
            " is not in [0, 1)");
  EBB_CHECK(is_floating(c.dtype), kInvalidArgument, "GPT-2: parameters of ", name(c.dtype),
            " cannot be trained");
}

// Makes parameters in order, each with random numbers of its own.
class Maker {
 public:
  Maker(device::Device& device, DType dtype, std::uint64_t seed, Parameters& parameters)
      : device_(device), dtype_(dtype), seed_(seed), parameters_(parameters) {}

  Tensor normal(std::string name, tensor::Shape shape, float deviation) {
    Tensor tensor = add(std::move(name), std::move(shape), /*decay=*/true);
    set_normal(tensor, deviation, seed_, static_cast<std::uint32_t>(parameters_.size()));
    return tensor;
  }
  Tensor constant(std::string name, std::int64_t size, float value) {
    Tensor tensor = add(std::move(name), {size}, /*decay=*/false);
    set_constant(tensor, value);
    return tensor;
  }
  Linear linear(const std::string& name, std::int64_t in, std::int64_t out,
                float deviation) {
    Linear linear;
    linear.weight = normal(name + ".weight", {out, in}, deviation);
    linear.bias = constant(name + ".bias", out, 0);
    return linear;
  }
  LayerNorm layer_norm(const std::string& name, std::int64_t size) {
    LayerNorm norm;
    norm.weight = constant(name + ".weight", size, 1);
    norm.bias = constant(name + ".bias", size, 0);
    return norm;
  }

 private:
  Tensor add(std::string name, tensor::Shape shape, bool decay) {
    Tensor tensor = Tensor::empty(device_, std::move(shape), dtype_, Purpose::kParameters);
    autograd::set_requires_grad(tensor, true);
    parameters_.push_back({std::move(name), tensor, decay});
    return tensor;
  }

  device::Device& device_;
  const DType dtype_;
  const std::uint64_t seed_;
  Parameters& parameters_;
};

Tensor run_layer(const std::vector<Block>& blocks, std::int64_t layer, const Tensor& x) {
  const autograd::StageScope stage(static_cast<std::int32_t>(layer));
  return blocks[static_cast<std::size_t>(layer)](x);
}

}  // namespace

Gpt2::Gpt2(device::Device& device, const Gpt2Config& config, std::uint64_t seed)
    : config_(config) {
  check(config);
  constexpr float kDeviation = 0.02F;
  const float residual = kDeviation / std::sqrt(2.0F * static_cast<float>(config.layers));
  Maker make(device, config.dtype, seed, parameters_);
  embedding_.table =
      make.normal("wte.weight", {config.vocabulary, config.hidden}, kDeviation);
  embedding_.positions =
      make.normal("wpe.weight", {config.positions, config.hidden}, kDeviation);
  std::vector<Block> blocks;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string h = absl::StrCat("h.", i, ".");
    Block block;
    block.dropout = config.dropout;
    block.attn.heads = config.heads;
    block.attn.dropout = config.dropout;
    block.ln_1 = make.layer_norm(h + "ln_1", config.hidden);
    block.attn.c_attn =
        make.linear(h + "attn.c_attn", config.hidden, 3 * config.hidden, kDeviation);
    block.attn.c_proj =
        make.linear(h + "attn.c_proj", config.hidden, config.hidden, residual);
    block.ln_2 = make.layer_norm(h + "ln_2", config.hidden);
    block.mlp.c_fc =
        make.linear(h + "mlp.c_fc", config.hidden, 4 * config.hidden, kDeviation);
    block.mlp.c_proj =
        make.linear(h + "mlp.c_proj", 4 * config.hidden, config.hidden, residual);
    blocks.push_back(std::move(block));
  }
  blocks_ = std::make_shared<const std::vector<Block>>(std::move(blocks));
  ln_f_ = make.layer_norm("ln_f", config.hidden);
}

Tensor Gpt2::hidden(const Tensor& tokens,
                    const std::vector<CheckpointSegment>& segments) const {
  check_segments(segments, config_.layers);
  Tensor h;
  {
    const autograd::StageScope stage(-1);
    h = embedding_(tokens);
    h = autograd::dropout_add(h, {}, config_.dropout);
  }
  auto segment = segments.begin();
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    if (segment == segments.end() || layer < segment->first) {
      h = run_layer(*blocks_, layer, h);
      continue;
    }
    const auto [first, last, recompute] = *segment++;
    const autograd::StageScope stage(static_cast<std::int32_t>(first));
    const Tensor inputs[] = {std::exchange(h, {})};
    h = autograd::checkpoint(
            [blocks = blocks_, first = first, last = last](std::span<const Tensor> in) {
              Tensor x = in[0];
              for (std::int64_t i = first; i <= last; ++i) x = run_layer(*blocks, i, x);
              return std::vector<Tensor>{x};
            },
            inputs, recompute)
            .front();
    layer = last;
  }
  return h;
}

Tensor Gpt2::loss(const Tensor& tokens, const Tensor& targets,
                  const std::vector<CheckpointSegment>& segments) const {
  Tensor h = hidden(tokens, segments);
  const autograd::StageScope stage(static_cast<std::int32_t>(config_.layers));
  h = ln_f_(h);
  return autograd::linear_cross_entropy(h, embedding_.table, targets);
}

Tensor Gpt2::next_logits(const Tensor& tokens) const {
  const autograd::NoGrad no_grad;
  const autograd::TrainingScope evaluate(false);
  Tensor h = hidden(tokens, {});
  const autograd::StageScope stage(static_cast<std::int32_t>(config_.layers));
  const std::int64_t seq = tokens.size(1);
  h = autograd::contiguous(h.slice(1, seq - 1, seq));
  h = ln_f_(h.view({tokens.size(0), config_.hidden}));
  return autograd::linear(h, embedding_.table, {});
}

}  // namespace ebb::nn
