#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/modes.h"
#include "runtime/autograd/ops/ops.h"
#include "tests/support/host_hooks.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tape_fixture.h"
#include "tests/support/tensors.h"

namespace ebb::autograd {
namespace {

using test::values_of;
using testing::ElementsAre;
using Floats = std::vector<float>;

using test::code_of;
using BackwardTest = test::TapeTest;

TEST_F(BackwardTest, AddsUpATensorThatIsUsedTwice) {
  const Tensor x = test::tensor_of(*device_, {2}, {3, 5});
  set_requires_grad(x, true);
  const Tensor y = scale(x, 2);
  backward(sum(add(multiply(y, y), y)));  // 4 x^2 + 2 x
  EXPECT_EQ(values_of(gradient(x)), (Floats{26, 42}));
}

TEST_F(BackwardTest, StartsFromAGivenGradient) {
  const Tensor x = leaf(1, {2});
  const Tensor y = scale(x, 2);
  backward(y, {.gradient = test::tensor_of(*device_, {2}, {1, 10})});
  EXPECT_EQ(values_of(gradient(x)), (Floats{2, 20}));
  EXPECT_EQ(code_of([&] { backward(y); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] {
              backward(y, {.gradient = x.view({2, 1})});
            }),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(BackwardTest, OfALeafIsItsGradient) {
  const Tensor x = leaf(1, {1});
  backward(x);
  EXPECT_EQ(values_of(gradient(x)), Floats{1});
}

TEST_F(BackwardTest, NeedsAGraph) {
  const Tensor x = test::tensor_of(*device_, {1}, {1});
  EXPECT_EQ(code_of([&] { backward(x); }), absl::StatusCode::kInvalidArgument);
  const Tensor y = leaf(1, {1});
  Tensor z;
  {
    const NoGrad no_grad;
    z = scale(y, 2);
  }
  EXPECT_FALSE(requires_grad(z));
  EXPECT_EQ(code_of([&] { backward(z); }), absl::StatusCode::kInvalidArgument);
}

TEST_F(BackwardTest, LeavesAGivenGradientAsItIs) {
  const Tensor x = leaf(1, {2});
  const Tensor seed = test::tensor_of(*device_, {2}, {1, 2});
  const Tensor y = add(x, x);
  backward(add(y, y), {.gradient = seed});
  EXPECT_EQ(values_of(gradient(x)), (Floats{4, 8}));
  EXPECT_EQ(values_of(seed), (Floats{1, 2}));
}

TEST_F(BackwardTest, GivesTheGraphUp) {
  const Tensor x = leaf(1);
  const Tensor y = sum(multiply(x, x));
  backward(y);
  EXPECT_EQ(code_of([&] { backward(y); }), absl::StatusCode::kFailedPrecondition);
}

TEST_F(BackwardTest, KeepsARetainedGraph) {
  const Tensor x = test::tensor_of(*device_, {1}, {3});
  set_requires_grad(x, true);
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  const Tensor y = sum(multiply(x, scale(x, 1)));
  backward(y, {.retain_graph = true});
  EXPECT_EQ(values_of(gradient(x)), Floats{6});
  EXPECT_EQ(hooks.log().live, 2U);
  backward(y);
  EXPECT_EQ(values_of(gradient(x)), Floats{12});
  EXPECT_EQ(hooks.log().live, 0U) << "the second run gives the graph up";
}

TEST_F(BackwardTest, ReturnsGradientsAndLeavesLeavesAlone) {
  const Tensor x = test::tensor_of(*device_, {1}, {3});
  const Tensor w = test::tensor_of(*device_, {1}, {5});
  set_requires_grad(x, true);
  set_requires_grad(w, true);
  const Tensor y = multiply(x, w);
  const Tensor z = sum(multiply(y, y));
  const Tensor inputs[] = {x, y, x};
  const std::vector<Tensor> result = gradients(z, inputs);
  ASSERT_EQ(result.size(), 3U);
  EXPECT_EQ(values_of(result[0]), Floats{2 * 15 * 5});
  EXPECT_EQ(values_of(result[1]), Floats{30});
  EXPECT_EQ(values_of(result[2]), Floats{2 * 15 * 5});
  EXPECT_FALSE(gradient(x).defined());
  EXPECT_FALSE(gradient(w).defined());
}

TEST_F(BackwardTest, WalksOnlyWhatLeadsToTheInputsAskedFor) {
  const Tensor x = leaf(1);
  const Tensor w = leaf(2);
  const Tensor side = multiply(w, w);
  const Tensor z = sum(multiply(scale(x, 2), side));
  const Tensor inputs[] = {side};
  EXPECT_EQ(gradients(z, inputs).size(), 1U);
  EXPECT_NO_THROW(backward(sum(side))) << "below `side` nothing was given up";
}

TEST_F(BackwardTest, GradientOfAnInputThatIsNotBelowIsUndefined) {
  const Tensor x = leaf(1);
  const Tensor other = leaf(2);
  const Tensor inputs[] = {x, other};
  const std::vector<Tensor> result = gradients(sum(scale(x, 2)), inputs);
  EXPECT_TRUE(result[0].defined());
  EXPECT_FALSE(result[1].defined());
}

TEST_F(BackwardTest, DifferentiatesTwice) {
  const Tensor x = test::tensor_of(*device_, {2}, {2, 3});
  set_requires_grad(x, true);
  const Tensor y = sum(multiply(multiply(x, x), x));  // x^3
  const Tensor inputs[] = {x};
  const Tensor first = gradients(y, inputs, {.create_graph = true}).front();
  EXPECT_EQ(values_of(first), (Floats{12, 27}));  // 3 x^2
  ASSERT_TRUE(requires_grad(first));
  const Tensor second = gradients(sum(first), inputs, {.create_graph = true}).front();
  EXPECT_EQ(values_of(second), (Floats{12, 18}));  // 6 x
  const Tensor third = gradients(sum(second), inputs).front();
  EXPECT_EQ(values_of(third), (Floats{6, 6}));
}

TEST_F(BackwardTest, DifferentiatesTheGradientThatALeafGot) {
  const Tensor x = test::tensor_of(*device_, {1}, {2});
  set_requires_grad(x, true);
  backward(sum(multiply(multiply(x, x), x)), {.create_graph = true});
  const Tensor first = gradient(x);
  set_gradient(x, {});
  backward(sum(first));
  EXPECT_EQ(values_of(gradient(x)), Floats{12});
}

TEST_F(BackwardTest, NeverWritesOverAGradientThatIsPartOfAGraph) {
  const Tensor x = test::tensor_of(*device_, {1}, {2});
  set_requires_grad(x, true);
  backward(sum(multiply(x, x)), {.create_graph = true});
  const Tensor first = gradient(x);
  backward(sum(scale(x, 10)));
  EXPECT_EQ(values_of(first), Floats{4});
  EXPECT_EQ(values_of(gradient(x)), Floats{14});
  set_gradient(x, {});
}

TEST_F(BackwardTest, RefusesASecondDerivativeByName) {
  const Tensor x = leaf(1, {2, 4});
  const Tensor y = sum(gelu(x));
  try {
    backward(y, {.create_graph = true});
    FAIL() << "gelu has no second derivative";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("gelu"), std::string::npos);
  }
  EXPECT_NO_THROW(backward(y)) << "nothing was given up";
}

TEST_F(BackwardTest, SurvivesADeepGraph) {
  Tensor h = leaf(1, {1});
  {
    // Dry: ops are not run.
    const auto dry = test::dry_sim();
    const Tensor x = Tensor::empty(*dry, {1}, DType::kF32);
    set_requires_grad(x, true);
    Tensor deep = x;
    for (int i = 0; i < 100'000; ++i) deep = scale(deep, 1);
    Tensor dropped = deep;
    backward(deep);
    EXPECT_TRUE(gradient(x).defined());
  }
  for (int i = 0; i < 100; ++i) h = scale(h, 1);
}

TEST_F(BackwardTest, RunsInsideBackward) {
  class Inner final : public Function {
   public:
    const char* name() const noexcept override { return "inner"; }
    std::vector<Tensor> forward(Saved& saved, std::span<const Tensor> in) override {
      saved.save(in);
      return {in[0].alias()};
    }
    // The gradient of x^2, by a tape of its own.
    std::vector<Tensor> backward(Saved& saved, std::span<const Tensor> gradients) override {
      const Tensor x = detach(saved.saved().front());
      set_requires_grad(x, true);
      Tensor y;
      {
        Grad on;
        y = multiply(x, x);
      }
      const Tensor inputs[] = {x};
      return autograd::gradients(y, inputs, {.gradient = gradients[0]});
    }

   private:
    // Turns gradients on inside of backward, where they are off.
    struct Grad {
      Grad() { modes().grad_enabled = true; }
      ModesScope restore;
    };
  };
  const Tensor x = test::tensor_of(*device_, {1}, {3});
  set_requires_grad(x, true);
  const Tensor inputs[] = {x};
  backward(autograd::apply(std::make_shared<Inner>(), inputs).front());
  EXPECT_EQ(values_of(gradient(x)), Floats{6});
}

TEST_F(BackwardTest, NoticesABackwardOfTheSameGraphInsideOfIt) {
  class Again final : public Function {
   public:
    const char* name() const noexcept override { return "again"; }
    std::vector<Tensor> forward(Saved&, std::span<const Tensor> in) override {
      return {in[0].alias()};
    }
    std::vector<Tensor> backward(Saved&, std::span<const Tensor> gradients) override {
      const Tensor start = std::exchange(below, {});
      autograd::backward(start);
      return {gradients[0]};
    }
    Tensor below;
  };
  const Tensor x = leaf(1);
  const auto again = std::make_shared<Again>();
  const Tensor h = gelu(x);
  again->below = sum(h);
  const Tensor inputs[] = {h};
  const Tensor loss = sum(autograd::apply(again, inputs).front());
  EXPECT_EQ(code_of([&] { backward(loss); }), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace ebb::autograd
