#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops/ops.h"
#include "tests/support/gradient_check.h"
#include "tests/support/host_hooks.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::autograd {
namespace {

using test::values_of;
using testing::ElementsAre;
using Floats = std::vector<float>;

// (a b, a + b), and what it was told.
class MulAdd final : public Function {
 public:
  const char* name() const noexcept override { return "mul_add"; }
  std::vector<Tensor> forward(Saved& saved, std::span<const Tensor> inputs) override {
    EXPECT_FALSE(grad_enabled());
    saved.save(inputs);
    return {multiply(inputs[0], inputs[1]), add(inputs[0], inputs[1])};
  }
  std::vector<Tensor> backward(Saved& saved, std::span<const Tensor> gradients) override {
    const std::vector<Tensor> in = saved.saved();
    std::vector<Tensor> results(2);
    for (std::size_t i = 0; i < 2; ++i) {
      if (!saved.needs_gradient(i)) continue;
      if (gradients[0].defined()) results[i] = multiply(gradients[0], in[1 - i]);
      if (!gradients[1].defined()) continue;
      results[i] = results[i].defined() ? add(results[i], gradients[1]) : gradients[1];
    }
    undefined_seen = !gradients[0].defined() || !gradients[1].defined();
    return results;
  }

  bool undefined_seen = false;
};

class FunctionTest : public testing::Test {
 protected:
  std::unique_ptr<device::CheckDevice> device_ = test::checked_sim();
};

TEST_F(FunctionTest, GradientsAreTheJobs) {
  test::expect_gradients(
      [](std::span<const Tensor> in) {
        const std::vector<Tensor> out = autograd::apply(std::make_shared<MulAdd>(), in);
        return multiply(out[0], out[1]);
      },
      {test::random_leaf(*device_, {5}, 1), test::random_leaf(*device_, {5}, 2)});
}

TEST_F(FunctionTest, HasAnUndefinedGradientForAnOutputThatNobodyUsed) {
  const auto function = std::make_shared<MulAdd>();
  const Tensor a = test::tensor_of(*device_, {1}, {3});
  const Tensor b = test::tensor_of(*device_, {1}, {5});
  set_requires_grad(a, true);
  const Tensor inputs[] = {a, b};
  backward(autograd::apply(function, inputs)[0]);
  EXPECT_TRUE(function->undefined_seen);
  EXPECT_EQ(values_of(gradient(a)), Floats{5});
  EXPECT_FALSE(gradient(b).defined());
}

TEST_F(FunctionTest, SavesThroughTheHooks) {
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  const Tensor a = test::random_leaf(*device_, {4}, 1);
  const Tensor inputs[] = {a, scale(a, 2)};
  backward(sum(autograd::apply(std::make_shared<MulAdd>(), inputs)[0]));
  EXPECT_THAT(hooks.log().packed, ElementsAre("mul_add", "mul_add"));
  EXPECT_EQ(hooks.log().unpacked.size(), 2U);
  EXPECT_EQ(hooks.log().live, 0U);
}

TEST_F(FunctionTest, MayReturnAnInput) {
  class Pass final : public Function {
   public:
    const char* name() const noexcept override { return "pass"; }
    std::vector<Tensor> forward(Saved&, std::span<const Tensor> in) override {
      return {in[0]};
    }
    std::vector<Tensor> backward(Saved&, std::span<const Tensor> g) override {
      return {scale(g[0], 10)};
    }
  };
  const Tensor x = test::random_leaf(*device_, {1}, 1);
  const Tensor inputs[] = {x};
  const Tensor y = autograd::apply(std::make_shared<Pass>(), inputs)[0];
  EXPECT_FALSE(y.is(x));
  backward(y);
  EXPECT_EQ(values_of(gradient(x)), Floats{10});
}

TEST_F(FunctionTest, MaySaveItsOutputWithoutLeaks) {
  class Square final : public Function {
   public:
    const char* name() const noexcept override { return "keeps its output"; }
    std::vector<Tensor> forward(Saved& saved, std::span<const Tensor> in) override {
      const Tensor out[] = {multiply(in[0], in[0])};
      saved.save(out);
      return {out[0]};
    }
    std::vector<Tensor> backward(Saved& saved, std::span<const Tensor>) override {
      return {saved.saved().front()};
    }
  };
  {
    const Tensor x = test::tensor_of(*device_, {1}, {3});
    set_requires_grad(x, true);
    const Tensor inputs[] = {x};
    const Tensor dropped = autograd::apply(std::make_shared<Square>(), inputs)[0];
    backward(autograd::apply(std::make_shared<Square>(), inputs)[0]);
    EXPECT_EQ(values_of(gradient(x)), Floats{9});
  }
  EXPECT_EQ(device_->memory().figures().lent.total(), 0U);
}

TEST_F(FunctionTest, IsNotRecordedWithoutGradients) {
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  const Tensor a = test::random_tensor(*device_, {4}, 1);
  const Tensor inputs[] = {a, a};
  EXPECT_FALSE(requires_grad(autograd::apply(std::make_shared<MulAdd>(), inputs)[0]));
  EXPECT_TRUE(hooks.log().packed.empty());
}

TEST_F(FunctionTest, ChecksWhatBackwardReturns) {
  class Wrong final : public Function {
   public:
    explicit Wrong(std::vector<Tensor> results) : results_(std::move(results)) {}
    const char* name() const noexcept override { return "wrong"; }
    std::vector<Tensor> forward(Saved&, std::span<const Tensor> in) override {
      return {scale(in[0], 1)};
    }
    std::vector<Tensor> backward(Saved&, std::span<const Tensor>) override {
      return results_;
    }

   private:
    std::vector<Tensor> results_;
  };
  const Tensor x = test::random_leaf(*device_, {1}, 1);
  const Tensor two = test::random_tensor(*device_, {2}, 1);
  const Tensor inputs[] = {x};
  for (const std::vector<Tensor>& results :
       {std::vector<Tensor>{}, std::vector<Tensor>{x, x}, std::vector<Tensor>{two}}) {
    const Tensor y = autograd::apply(std::make_shared<Wrong>(results), inputs)[0];
    EXPECT_THROW(backward(y), Error);
  }
  EXPECT_THROW(autograd::apply(nullptr, inputs), Error);
}

TEST_F(FunctionTest, HasNoSecondDerivative) {
  const Tensor a = test::random_leaf(*device_, {1}, 1);
  const Tensor inputs[] = {a, a};
  const Tensor y = autograd::apply(std::make_shared<MulAdd>(), inputs)[0];
  EXPECT_THROW(backward(y, {.create_graph = true}), Error);
}

TEST_F(FunctionTest, OneThatHoldsItsOwnOutputGoesWithItsBackward) {
  class Holds final : public Function {
   public:
    explicit Holds(int& alive) : alive_(alive) { ++alive_; }
    ~Holds() override { --alive_; }
    const char* name() const noexcept override { return "holds"; }
    std::vector<Tensor> forward(Saved& saved, std::span<const Tensor> in) override {
      saved.save(in);
      made = multiply(in[0], in[0]);
      return {made};
    }
    std::vector<Tensor> backward(Saved& saved, std::span<const Tensor> g) override {
      return {scale(multiply(saved.saved().front(), g[0]), 2)};
    }
    Tensor made;
    Tensor returned;

   private:
    int& alive_;
  };
  int alive = 0;
  const Tensor x = test::random_leaf(*device_, {4}, 1);
  for (const bool checkpointed : {false, true}) {
    const Segment segment = [&](std::span<const Tensor> in) {
      const auto function = std::make_shared<Holds>(alive);
      std::vector<Tensor> out = autograd::apply(function, in);
      function->returned = out[0];
      return out;
    };
    const Tensor inputs[] = {x};
    Tensor y = sum(checkpointed ? checkpoint(segment, inputs)[0] : segment(inputs)[0]);
    EXPECT_EQ(alive, 1);
    backward(y, {.retain_graph = true});
    backward(y);
    y = {};
    EXPECT_EQ(alive, 0) << checkpointed;
  }
  {
    // A graph without a backward, and what forward() itself returned.
    const auto function = std::make_shared<Holds>(alive);
    const Tensor inputs[] = {x};
    autograd::apply(function, inputs);
  }
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace ebb::autograd
