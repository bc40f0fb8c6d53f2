// What a segment's second run must find as its first run found it: random numbers, modes,
// arguments, parameters, and state that is the job's own. Each under every order of work,
// for segments that are recomputed always and as needed.

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/checkpoint/frame.h"
#include "runtime/autograd/ops/ops.h"
#include "runtime/autograd/primitive.h"
#include "tests/support/checkpoint_fixture.h"
#include "tests/support/host_hooks.h"
#include "tests/support/sim_orders.h"
#include "tests/support/tensors.h"

namespace ebb::autograd {
namespace {

using test::HostHooks;
using test::values_of;
using testing::ElementsAre;
using testing::HasSubstr;
using Floats = std::vector<float>;

class FrameRecomputeTest : public test::CheckpointTest,
                           public testing::WithParamInterface<device::Order> {
 protected:
  FrameRecomputeTest() : CheckpointTest(GetParam()) {}

  using Run =
      std::function<std::vector<Tensor>(const Segment&, std::initializer_list<Tensor>)>;
  using Model = std::function<std::vector<Floats>(const Run&)>;

  static std::vector<Tensor> as_it_is(const Segment& segment,
                                      std::initializer_list<Tensor> in) {
    return segment(std::span(in.begin(), in.size()));
  }
  static Run recomputed(Recompute kind) {
    return [kind](const Segment& segment, std::initializer_list<Tensor> in) {
      return checkpoint(segment, std::span(in.begin(), in.size()), kind);
    };
  }

  // Runs `model` without segments, and with segments of each kind, and expects the same.
  void expect_the_same(const Model& model) {
    const std::vector<Floats> expected = model(as_it_is);
    clear();
    EXPECT_EQ(model(recomputed(Recompute::kAlways)), expected) << "always";
    clear();
    {
      HostHooks hooks(HostHooks::remake);
      const HooksScope scope(&hooks);
      EXPECT_EQ(model(recomputed(Recompute::kAsNeeded)), expected) << "as needed";
      clear();
      EXPECT_FALSE(hooks.log().remade.empty());
      EXPECT_EQ(hooks.log().live, 0U);
    }
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      HostHooks hooks(HostHooks::random(seed));
      const HooksScope scope(&hooks);
      EXPECT_EQ(model(recomputed(Recompute::kAsNeeded)), expected) << "pattern " << seed;
      clear();
      EXPECT_EQ(model(recomputed(Recompute::kAlways)), expected) << "pattern " << seed;
      clear();
    }
  }
  void clear() {
    for (const Tensor& leaf : {x_, w1_, w2_}) set_gradient(leaf, {});
  }
  // Of x and the weights, after a backward from sum(y); cleared.
  std::vector<Floats> gradients_of(const Tensor& y) {
    backward(sum(y));
    std::vector<Floats> values = {values_of(y)};
    for (const Tensor& leaf : {x_, w1_, w2_}) {
      const Tensor gradient = autograd::gradient(leaf);
      values.push_back(gradient.defined() ? values_of(gradient) : Floats());
    }
    clear();
    return values;
  }
};

INSTANTIATE_TEST_SUITE_P(Orders, FrameRecomputeTest,
                         testing::ValuesIn(test::twenty_four_orders()),
                         [](const auto& order) { return test::order_name(order.param); });

TEST_P(FrameRecomputeTest, GraphsThatTakeTurnsDrawTheirOwnDropoutMasks) {
  expect_the_same([this](const Run& run) {
    const auto forward = [&](std::uint64_t seed) {
      set_random({.seed = seed, .step = 4});
      Tensor h = run(segment(), {x_}).front();
      h = dropout_add(h, {}, 0.5F);
      return run(segment(), {h}).front();
    };
    std::vector<Floats> all;
    const auto add_all = [&](const Tensor& y) {
      for (Floats& values : gradients_of(y)) all.push_back(std::move(values));
    };
    const Tensor a = forward(1);
    const Tensor b = forward(2);
    add_all(b);
    const Tensor c = forward(3);
    add_all(a);
    add_all(c);
    EXPECT_NE(all[0], all[4]);
    return all;
  });
}

TEST_P(FrameRecomputeTest, NestedSegmentsDrawTheSameDropoutMasks) {
  expect_the_same([this](const Run& run) {
    set_random({.seed = 7, .step = 1});
    const Segment inner = [&](std::span<const Tensor> in) {
      return std::vector<Tensor>{block(dropout_add(in[0], {}, 0.5F))};
    };
    const Segment middle = [&](std::span<const Tensor> in) {
      const Tensor h = run(inner, {dropout_add(in[0], {}, 0.25F)}).front();
      return run(inner, {dropout_add(h, in[0], 0.25F)});
    };
    const Segment outer = [&](std::span<const Tensor> in) {
      return std::vector<Tensor>{block(run(middle, {block(in[0])}).front())};
    };
    return gradients_of(run(outer, {x_}).front());
  });
}

TEST_P(FrameRecomputeTest, RunsInTheTrainingModeOfItsFirstRun) {
  for (const bool on : {true, false}) {
    expect_the_same([&, this](const Run& run) {
      set_random({.seed = 7});
      Tensor y;
      {
        const TrainingScope mode(on);
        y = run(segment(), {run(segment(), {x_}).front()}).front();
      }
      const TrainingScope other(!on);
      return gradients_of(y);
    });
  }
}

// Rounds to bf16's eight bits of precision under autocast(kBF16); copies otherwise.
class Rounds final : public Function {
 public:
  const char* name() const noexcept override { return "rounds"; }
  std::vector<Tensor> forward(Saved&, std::span<const Tensor> in) override {
    const bool half = autocast() == DType::kBF16;
    Tensor y = Tensor::empty(in[0].device(), in[0].shape(), DType::kF32);
    launch_op({.name = "rounds"}, {in[0]}, {y},
              [half, from = in[0].data_as<const std::uint32_t>(),
               to = y.data_as<std::uint32_t>(), n = y.elements()](void*) {
                for (std::int64_t i = 0; i < n; ++i) {
                  to[i] = half ? from[i] & 0xFFFF0000U : from[i];
                }
              });
    return {y};
  }
  std::vector<Tensor> backward(Saved&, std::span<const Tensor> g) override {
    return {g[0]};
  }
};

TEST_P(FrameRecomputeTest, ComputesInTheAutocastDtypeOfItsFirstRun) {
  const auto forward = [this](const Run& run, std::optional<DType> dtype) {
    set_random({.seed = 7});
    const AutocastScope scope(dtype);
    const Segment mixed = [this](std::span<const Tensor> in) {
      const Tensor inputs[] = {gelu(in[0])};
      return std::vector<Tensor>{
          block(autograd::apply(std::make_shared<Rounds>(), inputs).front())};
    };
    return run(mixed, {x_}).front();
  };
  for (const bool half : {true, false}) {
    const std::optional<DType> inside = half ? std::optional(DType::kBF16) : std::nullopt;
    const std::optional<DType> outside = half ? std::nullopt : std::optional(DType::kBF16);
    expect_the_same([&, this](const Run& run) {
      const Tensor y = forward(run, inside);
      const AutocastScope scope(outside);
      return gradients_of(y);
    });
  }
  EXPECT_NE(gradients_of(forward(as_it_is, DType::kBF16)),
            gradients_of(forward(as_it_is, std::nullopt)));
}

// x - mean(x) over all elements, in a way that keeps running statistics.
class Normalizes final : public Function {
 public:
  explicit Normalizes(const Tensor& running) : running_(running) {}
  const char* name() const noexcept override { return "normalizes"; }
  std::vector<Tensor> forward(Saved&, std::span<const Tensor> in) override {
    const Tensor mean = scale(sum(in[0]), 1.0F / static_cast<float>(in[0].elements()));
    if (training() && !recomputing()) {
      ++updates;
      const Tensor next = add(scale(running_, 0.9F), scale(mean, 0.1F));
      copy(next, running_);
      tensor::written_in_place(running_);
    }
    return {add(in[0], contiguous(expand(view(scale(mean, -1), {1, 1}), in[0].shape())))};
  }
  std::vector<Tensor> backward(Saved&, std::span<const Tensor> g) override {
    const Tensor mean = scale(sum(g[0]), -1.0F / static_cast<float>(g[0].elements()));
    return {add(g[0], contiguous(expand(view(mean, {1, 1}), g[0].shape())))};
  }

  int updates = 0;

 private:
  const Tensor running_;
};

TEST_P(FrameRecomputeTest, RunningStatisticsAreUpdatedOnce) {
  expect_the_same([this](const Run& run) {
    const Tensor running = test::tensor_of(*device_, {1}, {0.5F}, Purpose::kParameters);
    const auto norm = std::make_shared<Normalizes>(running);
    const Segment normed = [&, norm](std::span<const Tensor> in) {
      const Tensor inputs[] = {gelu(in[0])};
      return std::vector<Tensor>{gelu(gelu(autograd::apply(norm, inputs).front()))};
    };
    const Segment outer = [&](std::span<const Tensor> in) {
      return run(normed, {scale(run(normed, {in[0]}).front(), 3)});
    };
    std::vector<Floats> all = gradients_of(run(outer, {x_}).front());
    EXPECT_EQ(norm->updates, 2);
    all.push_back(values_of(running));
    return all;
  });
}

// A cache that grows, and a counter, as a layer's own state.
TEST_P(FrameRecomputeTest, WhatEachForwardCountsIsCountedOnce) {
  expect_the_same([this](const Run& run) {
    std::vector<Tensor> cache;
    int forwards = 0;
    int runs = 0;
    const Segment counts = [&](std::span<const Tensor> in) {
      ++runs;
      if (!recomputing()) {
        ++forwards;
        cache.push_back(detach(in[0]));
      }
      return std::vector<Tensor>{block(block(in[0]))};
    };
    set_random({.seed = 3});
    Tensor h = run(counts, {x_}).front();
    h = run(counts, {h}).front();
    const std::vector<Floats> found = gradients_of(h);
    EXPECT_EQ(forwards, 2);
    EXPECT_EQ(cache.size(), 2U);
    EXPECT_GE(runs, 2);
    EXPECT_FALSE(recomputing());
    return found;
  });
}

TEST_P(FrameRecomputeTest, TakesArgumentsOfAllKinds) {
  expect_the_same([this](const Run& run) {
    const Tensor tokens = test::tokens_of(*device_, {1, 3}, {2, 0, 1});
    const Tensor table = test::random_parameter(*device_, {4, 8}, 5);
    const Tensor constant = test::random_tensor(*device_, {3, 8}, 6);
    const Tensor wide = test::random_leaf(*device_, {8, 6}, 7);
    int seen = 0;
    const Segment mixed = [&](std::span<const Tensor> in) {
      ++seen;
      EXPECT_EQ(in.size(), 7U);
      EXPECT_FALSE(in[0].defined());
      EXPECT_EQ(in[1].dtype(), DType::kI32);
      EXPECT_FALSE(requires_grad(in[3]));
      EXPECT_TRUE(requires_grad(in[5]));
      Tensor e = view(embedding(in[1], in[2], in[0]), {3, 8});
      e = add(multiply(e, in[3]), in[4]);
      // A view of an input, and one of what the segment makes.
      const Tensor turned = gelu(contiguous(transpose(slice(in[5], 1, 1, 4), 0, 1)));
      const Tensor y = block(add(gelu(e), turned));
      // Several outputs: a view, none, an integer, one that nobody uses, an input.
      return std::vector<Tensor>{slice(gelu(y), 0, 0, 2), Tensor(), in[1],
                                 gelu(gelu(y)),           in[4],    multiply(y, in[4])};
    };
    set_random({.seed = 3});
    const std::vector<Tensor> out =
        run(mixed, {Tensor(), tokens, table, constant, x_, wide, /*not used*/ w1_});
    EXPECT_FALSE(out[1].defined());
    EXPECT_EQ(out[2].dtype(), DType::kI32);
    std::vector<Floats> all =
        gradients_of(add(view(contiguous(out[0]), {1, 16}),
                         view(contiguous(slice(add(out[5], out[4]), 0, 0, 2)), {1, 16})));
    for (const Tensor& leaf : {table, wide}) {
      all.push_back(values_of(gradient(leaf)));
      set_gradient(leaf, {});
    }
    EXPECT_FALSE(gradient(constant).defined());
    EXPECT_FALSE(gradient(w1_).defined()) << "used by the block, not as an input";
    EXPECT_GE(seen, 1);
    return all;
  });
}

TEST_P(FrameRecomputeTest, AWeightOfSeveralSegmentsGetsItsGradientInPlainOrder) {
  // Sums of floats show the order they are added in.
  expect_the_same([this](const Run& run) {
    set_random({.seed = 3});
    const Segment twice = [this](std::span<const Tensor> in) {
      const Tensor h = linear(linear_gelu(in[0], w1_, {}), w2_, {});
      return std::vector<Tensor>{linear(linear_gelu(h, w1_, {}), w2_, {})};
    };
    Tensor h = run(twice, {x_}).front();
    h = run(segment(), {h}).front();
    h = linear(linear_gelu(h, w1_, {}), w2_, {});
    h = run(twice, {h}).front();
    std::vector<Floats> first = gradients_of(h);
    return first;
  });
}

TEST_P(FrameRecomputeTest, AWeightThatIsAnInputAsWellIsCountedOnce) {
  expect_the_same([this](const Run& run) {
    const Segment with_weight = [this](std::span<const Tensor> in) {
      return std::vector<Tensor>{gelu(linear(linear_gelu(in[0], in[1], {}), w2_, {}))};
    };
    const Tensor h = run(with_weight, {x_, w1_}).front();
    return gradients_of(run(with_weight, {h, w1_}).front());
  });
}

TEST_P(FrameRecomputeTest, FrozenParametersStayWithoutAGradient) {
  for (const int frozen : {1, 2, 3}) {
    set_requires_grad(w1_, (frozen & 1) == 0);
    set_requires_grad(w2_, (frozen & 2) == 0);
    expect_the_same([&, this](const Run& run) {
      set_random({.seed = 3});
      const Tensor y = run(segment(), {run(segment(), {x_}).front()}).front();
      const std::vector<Floats> found = gradients_of(y);
      EXPECT_EQ(found[2].empty(), (frozen & 1) != 0);
      EXPECT_EQ(found[3].empty(), (frozen & 2) != 0);
      return found;
    });
  }
  for (const Tensor& weight : {w1_, w2_}) set_requires_grad(weight, true);
}

TEST_P(FrameRecomputeTest, AParameterFrozenBetweenTheRunsIsSeen) {
  const Tensor loss = sum(run(segment(), run(segment(), x_)));
  set_requires_grad(w1_, false);
  try {
    backward(loss);
    FAIL() << "another op is recorded now";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(error.what(), HasSubstr("linear"));
  }
  set_requires_grad(w1_, true);
  clear();
}

TEST_P(FrameRecomputeTest, ASegmentUsedInPartRunsInPart) {
  for (const Recompute kind : {Recompute::kAlways, Recompute::kAsNeeded}) {
    HostHooks hooks(HostHooks::remake);
    const HooksScope scope(&hooks);
    int ops = 0;
    const Segment three = [&](std::span<const Tensor> in) {
      std::vector<Tensor> out;
      Tensor h = scale(in[0], 2);
      for (int i = 0; i < 3; ++i, ++ops) out.push_back(h = gelu(h));
      return out;
    };
    const Tensor inputs[] = {x_};
    const Tensor first = checkpoint(three, inputs, kind)[0];
    EXPECT_EQ(ops, 3);
    backward(sum(first));
    EXPECT_EQ(ops, 3) << "it stops where the first gelu saves its input";
    clear();
  }
}

}  // namespace
}  // namespace ebb::autograd
