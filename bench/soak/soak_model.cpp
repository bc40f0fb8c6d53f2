#include "bench/soak/soak_model.h"

#include <array>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops/ops.h"
#include "runtime/autograd/primitive.h"
#include "runtime/nn/initialize.h"
#include "runtime/tensor/launch.h"

namespace ebb::bench {
namespace {

constexpr std::int64_t kHidden = 64;
constexpr std::int64_t kHeads = 2;
constexpr std::int64_t kVocabulary = 61;
constexpr std::int64_t kTokens = 4096;
constexpr float kDropout = 0.1F;
constexpr float kDeviation = 0.05F;

// y = x + 0.1 x^2, as a job would write it. Throws if its trap is sprung.
class Gate final : public autograd::Function {
 public:
  explicit Gate(Trap& trap) : trap_(trap) {}

  const char* name() const noexcept override { return "gate"; }

  std::vector<Tensor> forward(autograd::Saved& saved,
                              std::span<const Tensor> inputs) override {
    trap_.pass(autograd::recomputing() ? Trap::Where::kRecompute : Trap::Where::kForward);
    const Tensor& x = inputs[0];
    saved.save(std::array{x});
    const Tensor square = autograd::multiply(x, x);
    return {autograd::add(x, autograd::scale(square, 0.1F))};
  }

  std::vector<Tensor> backward(autograd::Saved& saved,
                               std::span<const Tensor> gradients) override {
    trap_.pass(Trap::Where::kBackward);
    const Tensor x = saved.saved().front();
    const Tensor slope = autograd::scale(autograd::multiply(x, gradients[0]), 0.2F);
    return {autograd::add(gradients[0], slope)};
  }

 private:
  Trap& trap_;
};

// Makes the parameters, each with random numbers of its own.
class Maker {
 public:
  Maker(device::Device& device, std::uint64_t seed, nn::Parameters& parameters)
      : device_(device), seed_(seed), parameters_(parameters) {}

  Tensor normal(std::string name, tensor::Shape shape) {
    const Tensor tensor = add(std::move(name), std::move(shape));
    nn::set_normal(tensor, kDeviation, seed_,
                   static_cast<std::uint32_t>(parameters_.size()));
    return tensor;
  }
  nn::Linear linear(const std::string& name, std::int64_t in, std::int64_t out) {
    nn::Linear linear;
    linear.weight = normal(name + ".weight", {out, in});
    linear.bias = normal(name + ".bias", {out});
    return linear;
  }
  nn::LayerNorm norm(const std::string& name) {
    nn::LayerNorm norm;
    norm.weight = add(name + ".weight", {kHidden});
    nn::set_constant(norm.weight, 1);
    norm.bias = normal(name + ".bias", {kHidden});
    return norm;
  }

 private:
  Tensor add(std::string name, tensor::Shape shape) {
    Tensor tensor =
        Tensor::empty(device_, std::move(shape), DType::kF32, Purpose::kParameters);
    autograd::set_requires_grad(tensor, true);
    autograd::set_gradient(
        tensor, Tensor::empty(device_, tensor.shape(), DType::kF32, Purpose::kGradients));
    parameters_.push_back({std::move(name), tensor, false});
    return tensor;
  }

  device::Device& device_;
  const std::uint64_t seed_;
  nn::Parameters& parameters_;
};

// All tokens of the soak; batches are views of it.
Tensor make_tokens(device::Device& device, std::uint64_t seed) {
  std::vector<std::int32_t> values;
  for (std::uint64_t i = 0; i < kTokens; ++i) {
    const std::uint32_t bits = random_block({.seed = seed}, 1, i).front();
    values.push_back(static_cast<std::int32_t>(bits % kVocabulary));
  }
  Tensor tokens = Tensor::empty(device, {kTokens}, DType::kI32);
  tensor::copy_from_host(tokens, values.data());
  return tokens;
}

// Ops with second derivatives, and views.
Tensor smooth(const Tensor& x) {
  const Tensor square = autograd::multiply(x, x);
  const Tensor turned = autograd::transpose(autograd::multiply(square, x), 0, 1);
  const std::int64_t half = turned.size(0) / 2;
  return autograd::multiply(autograd::slice(turned, 0, 0, half),
                            autograd::slice(turned, 0, half, 2 * half));
}

}  // namespace

int SoakGraph::layers() const {
  return std::accumulate(
      stretches.begin(), stretches.end(), 0,
      [](int sum, const Stretch& s) { return sum + static_cast<int>(s.layers.size()); });
}

int SoakGraph::recomputed_layers() const {
  return std::accumulate(
      stretches.begin(), stretches.end(), 0, [](int sum, const Stretch& s) {
        const bool always = s.checkpointed && s.recompute == autograd::Recompute::kAlways;
        return sum + (always ? static_cast<int>(s.layers.size()) : 0);
      });
}

SoakModel::SoakModel(device::Device& device, Trap& trap, std::uint64_t seed)
    : tokens_(make_tokens(device, seed)) {
  Maker make(device, seed, parameters_);
  embedding_.table = make.normal("tokens", {kVocabulary, kHidden});
  embedding_.positions = make.normal("positions", {kMostSeq, kHidden});
  std::vector<Layer> layers;
  for (int i = 0; i < kLayers; ++i) {
    const std::string h = absl::StrCat("h.", i, ".");
    nn::Block block;
    block.dropout = kDropout;
    block.attn.heads = kHeads;
    block.attn.dropout = kDropout;
    block.ln_1 = make.norm(h + "ln_1");
    block.attn.c_attn = make.linear(h + "c_attn", kHidden, 3 * kHidden);
    block.attn.c_proj = make.linear(h + "c_proj", kHidden, kHidden);
    block.ln_2 = make.norm(h + "ln_2");
    block.mlp.c_fc = make.linear(h + "c_fc", kHidden, 4 * kHidden);
    block.mlp.c_proj = make.linear(h + "mlp", 4 * kHidden, kHidden);
    layers.push_back({std::move(block), &trap});
  }
  layers_ = std::make_shared<const std::vector<Layer>>(std::move(layers));
  norm_ = make.norm("norm");
  penalized_ = make.normal("penalized", {kHidden, 2 * kHidden});
}

Tensor SoakModel::loss(const SoakGraph& graph, bool segments) const {
  autograd::set_random(graph.key);
  Tensor h = embedding_(tokens(graph, 0));
  h = autograd::dropout_add(h, {}, kDropout);
  for (const SoakGraph::Stretch& stretch : graph.stretches) {
    h = run(stretch, h, segments && stretch.checkpointed);
  }
  if (graph.side_output) (void)autograd::gelu(autograd::multiply(h, h));
  h = norm_(h);
  Tensor loss = autograd::linear_cross_entropy(h, embedding_.table, tokens(graph, 1));
  return graph.penalty ? autograd::add(loss, penalty(segments)) : loss;
}

Tensor SoakModel::run(const SoakGraph::Stretch& stretch, const Tensor& x,
                      bool segment) const {
  const auto pass = [layers = layers_, which = stretch.layers,
                     nested = segment && stretch.nested](std::span<const Tensor> in) {
    Tensor h = in[0];
    for (std::size_t i = 0; i < which.size(); ++i) {
      const autograd::StageScope stage(which[i]);
      const auto layer = [layers, number = static_cast<std::size_t>(which[i])](
                             std::span<const Tensor> inside) {
        const Layer& one = (*layers)[number];
        const Tensor gated =
            autograd::apply(std::make_shared<Gate>(*one.trap), inside).front();
        return std::vector<Tensor>{one.block(gated)};
      };
      const Tensor inputs[] = {std::exchange(h, {})};
      const bool inner = nested && i + 1 == which.size();
      h = (inner ? autograd::checkpoint(layer, inputs) : layer(inputs)).front();
    }
    return std::vector<Tensor>{h};
  };
  const Tensor inputs[] = {x};
  return (segment ? autograd::checkpoint(pass, inputs, stretch.recompute) : pass(inputs))
      .front();
}

Tensor SoakModel::penalty(bool segments) const {
  const Tensor inputs[] = {autograd::scale(penalized_, 1.5F)};
  const auto segment = [](std::span<const Tensor> in) {
    return std::vector<Tensor>{smooth(in[0])};
  };
  const Tensor y =
      (segments ? autograd::checkpoint(segment, inputs) : segment(inputs)).front();
  const Tensor slope =
      autograd::gradients(autograd::sum(y), inputs, {.create_graph = true}).front();
  return autograd::sum(autograd::multiply(slope, slope));
}

Tensor SoakModel::tokens(const SoakGraph& graph, std::uint64_t role) const {
  const std::int64_t count = graph.batch * graph.seq;
  const std::uint32_t bits = random_block(graph.key, 2, role).front();
  const std::int64_t begin = bits % (kTokens - count);
  return tokens_.slice(0, begin, begin + count).view({graph.batch, graph.seq});
}

void SoakModel::zero_gradients() const {
  for (const nn::Parameter& parameter : parameters_) {
    const Tensor gradient = autograd::gradient(parameter.tensor);
    autograd::fill(gradient, 0);
    tensor::written_in_place(gradient);
  }
}

void SoakModel::descend(float rate) const {
  for (const nn::Parameter& parameter : parameters_) {
    const Tensor gradient = autograd::gradient(parameter.tensor);
    const Tensor change =
        Tensor::empty(gradient.device(), gradient.shape(), gradient.dtype());
    autograd::scale_to(gradient, -rate, {}, change);
    autograd::add_to(parameter.tensor, change, parameter.tensor);
    tensor::written_in_place(parameter.tensor);
  }
}

}  // namespace ebb::bench
