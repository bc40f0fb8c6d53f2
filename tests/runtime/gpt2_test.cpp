#include "runtime/nn/gpt2.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "tests/support/host_hooks.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::nn {
namespace {

using test::values_of;
using Floats = std::vector<float>;

constexpr Gpt2Config kTiny{.layers = 4,
                           .heads = 2,
                           .hidden = 8,
                           .vocabulary = 11,
                           .positions = 6,
                           .dropout = 0.1F};

Gpt2Config tiny(float dropout) {
  Gpt2Config config = kTiny;
  config.dropout = dropout;
  return config;
}

struct Batch {
  Tensor tokens;
  Tensor targets;
};
Batch batch(device::Device& device) {
  return {test::tokens_of(device, {2, 5}, {1, 4, 10, 0, 3, 2, 2, 9, 8, 7}),
          test::tokens_of(device, {2, 5}, {4, 10, 0, 3, 5, 2, 9, 8, 7, -1})};
}

std::vector<std::vector<CheckpointSegment>> all_segments() {
  return {{{0, 0}, {1, 1}, {2, 2}, {3, 3}},
          {{0, 1}, {2, 3}},
          {{0, 2}, {3, 3}},
          {{0, 3}},
          {{0, 0}, {2, 2}},
          {{3, 3}}};
}

// The loss, and the gradients of all parameters.
std::vector<Floats> step(const Gpt2& model, const Batch& b,
                         const std::vector<CheckpointSegment>& segments = {}) {
  autograd::set_random({.seed = 5, .step = 2});
  const Tensor loss = model.loss(b.tokens, b.targets, segments);
  std::vector<Floats> values = {values_of(loss)};
  for (const Parameter& parameter : model.parameters()) {
    autograd::overwrite_gradient(parameter.tensor);
  }
  autograd::backward(loss);
  for (const Parameter& parameter : model.parameters()) {
    values.push_back(values_of(autograd::gradient(parameter.tensor)));
  }
  return values;
}

TEST(Gpt2, NamesItsParametersAsPublished) {
  const auto device = test::dry_sim();
  const Gpt2 model(*device, kTiny, 1);
  const Parameters& p = model.parameters();
  ASSERT_EQ(p.size(), 2U + 4 * 12 + 2);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < 14; ++i) names.push_back(p[i].name);
  EXPECT_THAT(names, testing::ElementsAre("wte.weight", "wpe.weight", "h.0.ln_1.weight",
                                          "h.0.ln_1.bias", "h.0.attn.c_attn.weight",
                                          "h.0.attn.c_attn.bias", "h.0.attn.c_proj.weight",
                                          "h.0.attn.c_proj.bias", "h.0.ln_2.weight",
                                          "h.0.ln_2.bias", "h.0.mlp.c_fc.weight",
                                          "h.0.mlp.c_fc.bias", "h.0.mlp.c_proj.weight",
                                          "h.0.mlp.c_proj.bias"));
  EXPECT_EQ(p.back().name, "ln_f.bias");
  EXPECT_EQ(p[4].tensor.shape(), (tensor::Shape{24, 8}));
  for (const Parameter& parameter : p) {
    EXPECT_EQ(parameter.decay, parameter.tensor.dimensions() == 2) << parameter.name;
    EXPECT_EQ(parameter.tensor.storage()->purpose(), Purpose::kParameters);
    EXPECT_TRUE(autograd::requires_grad(parameter.tensor));
  }
}

TEST(Gpt2, IsInitialisedFromItsSeed) {
  const auto device = test::checked_sim();
  Gpt2Config config = tiny(0);
  config.hidden = 64;
  const Gpt2 one(*device, config, 1);
  const Gpt2 same(*device, config, 1);
  const Gpt2 other(*device, config, 2);
  for (std::size_t i = 0; i < one.parameters().size(); ++i) {
    const Parameter& parameter = one.parameters()[i];
    const Floats values = values_of(parameter.tensor);
    EXPECT_EQ(values, values_of(same.parameters()[i].tensor));
    if (parameter.decay) {
      EXPECT_NE(values, values_of(other.parameters()[i].tensor));
    }
    double square = 0;
    for (const float v : values) square += static_cast<double>(v) * static_cast<double>(v);
    const double n = static_cast<double>(values.size());
    const bool residual = parameter.name.find("c_proj.weight") != std::string::npos;
    const bool norm = parameter.name.find("ln_") != std::string::npos;
    const bool weight = parameter.name.find(".weight") != std::string::npos;
    double expected = weight ? (norm ? 1 : 0.02) : 0;
    if (residual) expected /= std::sqrt(2.0 * 4);
    EXPECT_NEAR(std::sqrt(square / n), expected, 5 * expected / std::sqrt(2 * n))
        << parameter.name;
  }
}

TEST(Gpt2, StartsAtTheLossOfAGuess) {
  const auto device = test::checked_sim();
  const Gpt2 model(*device, tiny(0), 1);
  const Batch b = batch(*device);
  EXPECT_NEAR(values_of(model.loss(b.tokens, b.targets))[0], std::log(11.0), 0.05);
}

// The directional derivative along the gradient, which is its norm; in float, of a loss of
// about 2.4: a step of 2^-8 leaves 2^-22 * 2^8 = 6e-5 of rounding, and second order
// cancels.
TEST(Gpt2, GradientIsThatOfTheLoss) {
  const auto device = test::checked_sim();
  const Gpt2 model(*device, kTiny, 1);
  const Batch b = batch(*device);
  const std::vector<Floats> values = step(model, b);
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    const Tensor& parameter = model.parameters()[i].tensor;
    const Floats at = values_of(parameter);
    const Floats& gradient = values[i + 1];
    double norm = 0;
    for (const float g : gradient) norm += static_cast<double>(g) * static_cast<double>(g);
    norm = std::sqrt(norm);
    if (norm < 1e-3) continue;
    const auto loss_at = [&](float distance) {
      Floats moved = at;
      for (std::size_t e = 0; e < at.size(); ++e) {
        moved[e] += distance * gradient[e] / static_cast<float>(norm);
      }
      tensor::copy_from_host(parameter, moved.data());
      autograd::set_random({.seed = 5, .step = 2});
      const autograd::NoGrad no_grad;
      return static_cast<double>(values_of(model.loss(b.tokens, b.targets))[0]);
    };
    constexpr float kStep = 1.0F / 256;
    const double numeric =
        (loss_at(kStep) - loss_at(-kStep)) / (2 * static_cast<double>(kStep));
    tensor::copy_from_host(parameter, at.data());
    EXPECT_NEAR(numeric, norm, 0.02 * norm + 3e-4) << model.parameters()[i].name;
  }
}

class Gpt2OrderTest : public testing::TestWithParam<device::Order> {};

TEST_P(Gpt2OrderTest, CheckpointingAndHooksChangeNoBit) {
  const auto device = test::checked_sim(GetParam());
  {
    const Gpt2 model(*device, kTiny, 1);
    const Batch b = batch(*device);
    const std::vector<Floats> expected = step(model, b);
    test::HostHooks hooks;
    for (const auto& segments : all_segments()) {
      EXPECT_EQ(step(model, b, segments), expected);
      const autograd::HooksScope scope(&hooks);
      EXPECT_EQ(step(model, b, segments), expected);
      EXPECT_EQ(hooks.log().order, hooks.log().unpacked);
      hooks.clear_log();
    }
    EXPECT_GT(device->order().accesses, 0U);
    EXPECT_EQ(device->order().violations, 0U);
  }
  EXPECT_EQ(device->memory().figures().lent.total(), 0U);
}

TEST_P(Gpt2OrderTest, LayersThatHooksLeaveToARecomputeChangeNoBit) {
  const auto device = test::checked_sim(GetParam());
  const Gpt2 model(*device, kTiny, 1);
  const Batch b = batch(*device);
  const std::vector<Floats> expected = step(model, b);
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    test::HostHooks hooks(test::HostHooks::random(seed));
    const autograd::HooksScope scope(&hooks);
    for (const auto& segments : {std::vector<CheckpointSegment>{}, all_segments()[4]}) {
      EXPECT_EQ(step(model, b, with_others_as_needed(segments, 4)), expected);
      EXPECT_FALSE(hooks.log().remade.empty());
      EXPECT_EQ(hooks.log().order, hooks.log().unpacked);
      hooks.clear_log();
    }
  }
}

// Also longer segments than the model, and models of one and of five layers.
TEST_P(Gpt2OrderTest, SegmentsOfAnyLengthChangeNoBit) {
  const auto device = test::checked_sim(GetParam());
  const Batch b = batch(*device);
  for (const std::int64_t layers : {1, 5}) {
    Gpt2Config config = kTiny;
    config.layers = layers;
    const Gpt2 model(*device, config, 1);
    const std::vector<Floats> expected = step(model, b);
    for (const std::int64_t length : {1, 2, 3, 4, 5, 9}) {
      std::vector<CheckpointSegment> segments;
      for (std::int64_t i = 0; i < layers; i += length) {
        segments.push_back({i, std::min(i + length, layers) - 1});
      }
      EXPECT_EQ(step(model, b, segments), expected) << layers << ", every " << length;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, Gpt2OrderTest, testing::ValuesIn(test::all_orders()),
                         [](const auto& order) { return test::order_name(order.param); });

TEST(Gpt2, TouchesOnlyWhatItsOpsDeclare) {
  const auto device = test::guarded_sim();
  const Gpt2 model(*device, kTiny, 1);
  const Batch b = batch(*device);
  EXPECT_NO_THROW(step(model, b, {{0, 1}}));
}

TEST(Gpt2, DryAndRealAgreeInTimeAndBytes) {
  const auto real = test::checked_sim();
  const auto dry = test::dry_sim();
  std::vector<double> ends;
  std::vector<std::size_t> peaks;
  for (device::Device* device : {static_cast<device::Device*>(real.get()),
                                 static_cast<device::Device*>(dry.get())}) {
    const Gpt2 model(*device, kTiny, 1);
    step(model, batch(*device), {{0, 1}, {2, 3}});
    device->synchronize();
    ends.push_back(device->now());
    peaks.push_back(device->memory().figures().peak_bytes);
  }
  EXPECT_EQ(ends[0], ends[1]);
  EXPECT_EQ(peaks[0], peaks[1]);
}

// A checkpointed layer keeps its input, and one layer's worth is remade at a time.
TEST(Gpt2, SegmentsBringThePeakDown) {
  const auto peak = [](const std::vector<CheckpointSegment>& segments) {
    const auto device = test::dry_sim();
    Gpt2Config config = kTiny;
    config.layers = 16;
    const Gpt2 model(*device, config, 1);
    const Tensor tokens = Tensor::empty(*device, {64, 6}, DType::kI32);
    device->synchronize();
    device->memory().reset_peaks();
    autograd::backward(model.loss(tokens, tokens, segments));
    device->synchronize();
    return device->memory().figures().peak_activation_bytes;
  };
  std::vector<CheckpointSegment> each;
  for (std::int64_t i = 0; i < 16; ++i) each.push_back({i, i});
  EXPECT_LT(4 * peak(each), peak({}));
  EXPECT_LT(peak({{0, 7}, {8, 15}}), peak({{0, 15}}));
}

TEST(Gpt2, LayersCostNothingAsSegmentsThatNobodyRecomputes) {
  const auto figures = [](bool segments) {
    const auto device = test::dry_sim();
    const Gpt2 model(*device, kTiny, 1);
    const Tensor tokens = Tensor::empty(*device, {64, 6}, DType::kI32);
    test::HostHooks hooks(/*keep=*/true);
    const autograd::HooksScope scope(&hooks);
    autograd::backward(model.loss(
        tokens, tokens,
        segments ? with_others_as_needed({}, 4) : std::vector<CheckpointSegment>()));
    device->synchronize();
    return std::pair(device->now(), device->memory().figures().peak_bytes);
  };
  EXPECT_EQ(figures(true), figures(false));
}

TEST(Gpt2, AccumulatesTheGradientsOfMicroBatches) {
  const auto device = test::checked_sim();
  const Gpt2 model(*device, tiny(0), 1);
  const Batch b = batch(*device);
  const std::vector<Floats> once = step(model, b);
  autograd::backward(model.loss(b.tokens, b.targets, {{1, 2}}));
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    const Floats twice = values_of(autograd::gradient(model.parameters()[i].tensor));
    for (std::size_t e = 0; e < twice.size(); ++e) {
      EXPECT_NEAR(twice[e], 2 * once[i + 1][e], 1e-6F + 1e-5F * std::fabs(twice[e]));
    }
  }
}

TEST(Gpt2, PassesStagesOn) {
  // What is saved belongs to a layer; the head's is one past the last.
  class Stages final : public autograd::SavedTensorHooks {
   public:
    autograd::PackResult pack(const Tensor&, const autograd::SaveSite& s) override {
      if (seen.empty() || seen.back() != s.stage) seen.push_back(s.stage);
      return nullptr;
    }
    void begin_backward(std::span<autograd::PackedTensor* const>) override {}
    void end_backward() noexcept override {}
    std::vector<std::int32_t> seen;
  };
  const auto device = test::dry_sim();
  const Gpt2 model(*device, kTiny, 1);
  const Batch b = batch(*device);
  for (const std::vector<CheckpointSegment>& segments :
       {std::vector<CheckpointSegment>{}, all_segments()[0]}) {
    Stages stages;
    const autograd::HooksScope scope(&stages);
    const Tensor loss = model.loss(b.tokens, b.targets, segments);
    EXPECT_THAT(stages.seen, testing::ElementsAre(-1, 0, 1, 2, 3, 4));
  }
}

TEST(Gpt2, PredictsFromTheLastPosition) {
  const auto device = test::checked_sim();
  const Gpt2 model(*device, kTiny, 1);
  const Tensor tokens = batch(*device).tokens;
  const Tensor logits = model.next_logits(tokens);
  EXPECT_EQ(logits.shape(), (tensor::Shape{2, 11}));
  EXPECT_FALSE(autograd::requires_grad(logits));
  // Cross entropy of the last position alone.
  const Floats values = values_of(logits);
  double total = 0;
  for (std::size_t v = 0; v < 11; ++v) total += std::exp(static_cast<double>(values[v]));
  const Tensor targets =
      test::tokens_of(*device, {2, 5}, {-1, -1, -1, -1, 6, -1, -1, -1, -1, -1});
  const autograd::TrainingScope evaluate(false);
  EXPECT_NEAR(values_of(model.loss(tokens, targets))[0],
              std::log(total) - static_cast<double>(values[6]), 1e-5);
}

TEST(Gpt2, ItsGraphMayOutliveIt) {
  const auto device = test::checked_sim();
  const Batch b = batch(*device);
  Tensor loss;
  Tensor parameter;
  {
    const Gpt2 model(*device, kTiny, 1);
    loss = model.loss(b.tokens, b.targets, {{0, 3}});
    parameter = model.parameters()[4].tensor;
  }
  autograd::backward(loss);
  EXPECT_TRUE(autograd::gradient(parameter).defined());
}

TEST(Gpt2, RefusesShapesThatAreNone) {
  const auto device = test::dry_sim();
  for (const auto& change : std::vector<std::function<void(Gpt2Config&)>>{
           [](Gpt2Config& c) { c.layers = 0; }, [](Gpt2Config& c) { c.heads = 3; },
           [](Gpt2Config& c) { c.heads = 0; }, [](Gpt2Config& c) { c.hidden = -8; },
           [](Gpt2Config& c) { c.vocabulary = std::int64_t{1} << 40; },
           [](Gpt2Config& c) { c.positions = 0; }, [](Gpt2Config& c) { c.dropout = 1; },
           [](Gpt2Config& c) { c.dropout = NAN; },
           [](Gpt2Config& c) { c.dtype = DType::kI32; }}) {
    Gpt2Config config = kTiny;
    change(config);
    EXPECT_THROW(Gpt2(*device, config, 1), Error);
  }
}

TEST(Gpt2, RefusesSegmentsAndTokensThatDoNotFit) {
  const auto device = test::dry_sim();
  const Gpt2 model(*device, kTiny, 1);
  const Batch b = batch(*device);
  EXPECT_THROW(model.loss(b.tokens, b.targets, {{3, 4}}), Error);
  const Tensor too_long = Tensor::empty(*device, {1, 7}, DType::kI32);
  EXPECT_THROW(model.loss(too_long, too_long), Error);
}

}  // namespace
}  // namespace ebb::nn
