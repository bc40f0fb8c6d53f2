// Order, hooks and memory of a backward.

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
using BackwardOrderTest = test::TapeTest;

TEST_F(BackwardOrderTest, FreesTheGraphAsItGoes) {
  constexpr std::int64_t kElements = 1 << 16;
  Tensor x = leaf(1, {kElements});
  Tensor h = x;
  for (int i = 0; i < 16; ++i) h = gelu(h);
  const Tensor loss = sum(h);
  h = {};
  device_->synchronize();
  const std::size_t before = device_->memory().figures().lent.total();
  device_->memory().reset_peaks();
  backward(loss);
  device_->synchronize();
  const std::size_t peak = device_->memory().figures().peak_bytes;
  // A gradient, the expanded one, and the leaf's buffer come on top, and no more.
  EXPECT_LE(peak, before + 4 * kElements * sizeof(float));
  EXPECT_LE(device_->memory().figures().lent.total(), 3 * kElements * sizeof(float));
}

TEST_F(BackwardOrderTest, AddsResidualGradientsInPlace) {
  constexpr std::int64_t kElements = 1 << 16;
  constexpr std::size_t kBytes = kElements * sizeof(float);
  const Tensor x = leaf(1, {kElements});
  Tensor h = x;
  for (int i = 0; i < 8; ++i) h = add(h, scale(h, 0.5F));
  const Tensor loss = sum(h);
  h = {};
  device_->synchronize();
  device_->memory().reset_peaks();
  const std::size_t before = device_->memory().figures().lent.total();
  backward(loss);
  device_->synchronize();
  EXPECT_LE(device_->memory().figures().peak_bytes, before + 3 * kBytes);
}

TEST_F(BackwardOrderTest, InterleavesGraphs) {
  const Tensor x = test::tensor_of(*device_, {1}, {2});
  set_requires_grad(x, true);
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  const auto forward = [&] { return sum(multiply(scale(x, 2), scale(x, 3))); };
  const Tensor a = forward();
  const Tensor b = forward();
  backward(b);
  const Tensor c = forward();
  backward(a);
  EXPECT_EQ(values_of(gradient(x)), Floats{48});
  backward(c);
  EXPECT_EQ(values_of(gradient(x)), Floats{72});
  EXPECT_EQ(hooks.log().live, 0U);
}

TEST_F(BackwardOrderTest, TellsHooksTheOrderOfUse) {
  const Tensor x = leaf(1);
  test::HostHooks hooks;
  Tensor loss;
  {
    const HooksScope scope(&hooks);
    Tensor h = x;
    for (int i = 0; i < 4; ++i) h = gelu(scale(h, 2));
    loss = sum(multiply(h, h));
  }
  backward(loss);
  EXPECT_EQ(hooks.log().packed.size(), 6U);
  EXPECT_EQ(hooks.log().order, hooks.log().unpacked);
  EXPECT_THAT(hooks.log().order, ElementsAre(4, 5, 3, 2, 1, 0));
  EXPECT_EQ(hooks.log().begun, 1);
  EXPECT_EQ(hooks.log().ended, 1);
}

TEST_F(BackwardOrderTest, TellsEachOfSeveralHooksItsOwn) {
  const Tensor x = leaf(1);
  test::HostHooks one;
  test::HostHooks two;
  Tensor h;
  {
    const HooksScope scope(&one);
    h = gelu(x);
    {
      const HooksScope inner(&two);
      h = gelu(h);
    }
    h = gelu(h);
  }
  backward(sum(h));
  EXPECT_THAT(one.log().order, ElementsAre(1, 0));
  EXPECT_THAT(two.log().order, ElementsAre(0));
  EXPECT_EQ(one.log().ended + two.log().ended, 2);
}

TEST_F(BackwardOrderTest, LeavesNothingBehindAfterAnException) {
  class Failing final : public Function {
   public:
    const char* name() const noexcept override { return "failing"; }
    std::vector<Tensor> forward(Saved& saved, std::span<const Tensor> in) override {
      saved.save(in);
      return {in[0].alias()};
    }
    std::vector<Tensor> backward(Saved&, std::span<const Tensor>) override {
      throw Error(absl::StatusCode::kAborted, "no gradient today");
    }
  };
  const Tensor x = leaf(1);
  test::HostHooks hooks;
  {
    const HooksScope scope(&hooks);
    const Tensor inputs[] = {gelu(x)};
    const Tensor loss =
        sum(gelu(autograd::apply(std::make_shared<Failing>(), inputs).front()));
    EXPECT_EQ(code_of([&] { backward(loss); }), absl::StatusCode::kAborted);
    EXPECT_EQ(hooks.log().ended, 1);
    EXPECT_EQ(phase(), device::Phase::kForward) << "modes are put back";
    EXPECT_TRUE(grad_enabled());
    EXPECT_EQ(code_of([&] { backward(loss); }), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(hooks.log().live, 0U);
  EXPECT_NO_THROW(backward(sum(gelu(x)))) << "training goes on";
}

TEST_F(BackwardOrderTest, AGraphThatSeesNoBackwardLeavesNothingBehind) {
  const Tensor x = leaf(1);
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  {
    const Tensor unused = gelu(gelu(x));
    EXPECT_EQ(hooks.log().live, 2U);
  }
  EXPECT_EQ(hooks.log().live, 0U);
}

TEST(BackwardOrder, FollowsTheCurrentStreamFromOpToOp) {
  for (const device::Order& order : test::all_orders()) {
    const auto device = test::checked_sim(order);
    device::Stream& first = device->current_stream();
    device::Stream& second = device->create_stream("second");
    const auto switch_to = [&](device::Stream& stream) {
      stream.wait(device->current_stream().record(), {});
      device->set_current_stream(stream);
    };
    {
      const Tensor x = test::random_leaf(*device, {64}, 1);
      const auto run = [&](bool change) {
        test::HostHooks hooks;
        const HooksScope scope(&hooks);
        Tensor h = x;
        for (int i = 0; i < 4; ++i) {
          if (change) switch_to(i % 2 == 0 ? second : first);
          h = gelu(scale(h, 2));
        }
        const Tensor loss = sum(h);
        if (change) switch_to(second);
        backward(loss);
        const Floats values = values_of(gradient(x));
        if (change) switch_to(first);
        set_gradient(x, {});
        return values;
      };
      const Floats expected = run(false);
      EXPECT_EQ(run(true), expected) << test::order_name(order);
    }
    device->synchronize();
    EXPECT_EQ(device->order().violations, 0U);
    device->destroy_stream(second);
  }
}

TEST(BackwardOrder, GivesTheSameBitsInEveryOrder) {
  Floats first;
  for (const device::Order& order : test::all_orders()) {
    const auto device = test::checked_sim(order);
    const Tensor x = test::random_leaf(*device, {3, 8}, 1);
    const Tensor w = test::random_parameter(*device, {8, 8}, 2);
    test::HostHooks hooks;
    const HooksScope scope(&hooks);
    Tensor h = x;
    for (int i = 0; i < 4; ++i) h = add(h, gelu(linear(h, w, {})));
    backward(sum(h));
    const Floats values = values_of(gradient(w));
    if (first.empty()) first = values;
    EXPECT_EQ(values, first) << test::order_name(order);
  }
}

}  // namespace
}  // namespace ebb::autograd
