#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops/ops.h"
#include "tests/support/checkpoint_fixture.h"
#include "tests/support/host_hooks.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::autograd {
namespace {

using test::values_of;
using testing::ElementsAre;
using testing::HasSubstr;
using Floats = std::vector<float>;

using test::CheckpointTest;

class CheckpointOrderTest : public CheckpointTest,
                            public testing::WithParamInterface<device::Order> {
 protected:
  CheckpointOrderTest() : CheckpointTest(GetParam()) {}
};

TEST_P(CheckpointOrderTest, EqualsThePlainRunBitForBit) {
  EXPECT_EQ(checkpointed(3), plain(3));
}

TEST_P(CheckpointOrderTest, EqualsThePlainRunWithHooks) {
  const std::vector<Floats> expected = plain(3);
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  EXPECT_EQ(checkpointed(3), expected);
  EXPECT_EQ(hooks.log().live, 0U);
  EXPECT_EQ(hooks.log().order, hooks.log().unpacked);
}

INSTANTIATE_TEST_SUITE_P(Orders, CheckpointOrderTest, testing::ValuesIn(test::all_orders()),
                         [](const auto& order) { return test::order_name(order.param); });

TEST_F(CheckpointTest, SavesItsInputsOnly) {
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  const Tensor y = run(segment(), run(segment(), x_));
  EXPECT_THAT(hooks.log().packed, ElementsAre("checkpoint (input)", "checkpoint (input)"));
}

TEST_F(CheckpointTest, HoldsNothingOfTheSegmentUntilBackward) {
  device_->synchronize();
  const std::size_t before = device_->memory().figures().lent.total();
  const Tensor y = run(segment(), x_);
  EXPECT_EQ(device_->memory().figures().lent.total(),
            before + 512 * ((y.bytes() + 511) / 512));
}

TEST_F(CheckpointTest, NestsAndEqualsThePlainRun) {
  const std::vector<Floats> expected = plain(4);
  const Segment inner = segment();
  const Segment middle = [&](std::span<const Tensor> in) {
    return std::vector<Tensor>{run(inner, run(inner, in[0]))};
  };
  const Segment outer = [&](std::span<const Tensor> in) {
    return std::vector<Tensor>{block(run(middle, block(in[0])))};
  };
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  set_random({.seed = 9, .step = 4});
  EXPECT_EQ(results(run(outer, x_)), expected);
  EXPECT_THAT(hooks.log().packed,
              ElementsAre("checkpoint (input)", "multiply", "multiply"));
  EXPECT_EQ(hooks.log().live, 0U);
}

TEST_F(CheckpointTest, StopsAfterTheLastTensorThatBackwardNeeds) {
  int linears = 0;
  const Segment counted = [&](std::span<const Tensor> in) {
    const Tensor h = linear_gelu(in[0], w1_, {});
    ++linears;
    const Tensor y = linear(h, w2_, {});
    ++linears;
    return std::vector<Tensor>{y};
  };
  backward(sum(run(counted, x_)));
  EXPECT_EQ(linears, 3) << "two, then one again: the last saves its input before it runs";
}

TEST_F(CheckpointTest, RecomputesOnceForAllThatItsNodesNeed) {
  int runs = 0;
  const Segment counted = [&](std::span<const Tensor> in) {
    ++runs;
    return std::vector<Tensor>{block(block(in[0]))};
  };
  backward(sum(run(counted, x_)));
  EXPECT_EQ(runs, 2);
}

TEST_F(CheckpointTest, RecomputesUnderTheModesOfItsForward) {
  std::vector<device::Phase> phases;
  std::vector<std::int32_t> stages;
  std::vector<bool> trainings;
  const Segment watched = [&](std::span<const Tensor> in) {
    phases.push_back(phase());
    stages.push_back(stage());
    trainings.push_back(training());
    EXPECT_TRUE(grad_enabled());
    return std::vector<Tensor>{gelu(in[0])};
  };
  Tensor y;
  {
    const StageScope in_stage(7);
    const TrainingScope evaluate(false);
    y = run(watched, x_);
  }
  set_random({.seed = 1, .op = 50});
  backward(sum(y));
  EXPECT_EQ(next_random().op, 50U) << "the counters go on where they were";
  EXPECT_THAT(phases, ElementsAre(device::Phase::kForward, device::Phase::kRecompute));
  EXPECT_THAT(stages, ElementsAre(7, 7));
  EXPECT_THAT(trainings, ElementsAre(false, false));
  EXPECT_EQ(stage(), -1);
  EXPECT_TRUE(training());
}

TEST_F(CheckpointTest, TakesUndefinedIntegerAndRepeatedInputs) {
  const Tensor tokens = test::tokens_of(*device_, {1, 3}, {2, 0, 1});
  const Tensor table = test::random_parameter(*device_, {4, 8}, 5);
  const Segment mixed = [](std::span<const Tensor> in) {
    EXPECT_EQ(in.size(), 5U);
    EXPECT_FALSE(in[2].defined());
    const Tensor e = view(embedding(in[0], in[1], in[2]), {3, 8});
    return std::vector<Tensor>{multiply(e, add(in[3], in[4])), gelu(e), Tensor()};
  };
  const auto loss = [&](bool with_checkpoint) {
    const Tensor inputs[] = {tokens, table, Tensor(), x_, x_};
    const std::vector<Tensor> out =
        with_checkpoint ? checkpoint(mixed, inputs) : mixed(inputs);
    EXPECT_FALSE(out[2].defined());
    backward(sum(add(out[0], out[1])));
    std::vector<Floats> values = {values_of(gradient(table)), values_of(gradient(x_))};
    set_gradient(table, {});
    set_gradient(x_, {});
    return values;
  };
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  const std::vector<Floats> expected = loss(false);
  hooks.clear_log();
  EXPECT_EQ(loss(true), expected);
  EXPECT_THAT(hooks.log().packed,
              ElementsAre("checkpoint (input)", "checkpoint (input)", "checkpoint (input)"))
      << "tokens and x twice, not the parameter";
}

TEST_F(CheckpointTest, TakesViewsAsInputs) {
  const Tensor wide = test::random_leaf(*device_, {8, 3}, 4);
  const auto loss = [&](bool with_checkpoint) {
    set_random({.seed = 9, .step = 4});
    const Tensor input = transpose(wide, 0, 1);
    backward(sum(with_checkpoint ? run(segment(), input) : block(input)));
    const Floats values = values_of(gradient(wide));
    set_gradient(wide, {});
    return values;
  };
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  const Floats expected = loss(false);
  EXPECT_EQ(loss(true), expected);
  for (const Tensor& w : {w1_, w2_}) set_gradient(w, {});
}

TEST_F(CheckpointTest, OneOutputOfSeveralMayGoUnused) {
  const Segment two = [&](std::span<const Tensor> in) {
    const Tensor h = gelu(in[0]);
    return std::vector<Tensor>{multiply(h, h), gelu(gelu(h))};
  };
  const Tensor inputs[] = {x_};
  backward(sum(two(inputs)[0]));
  const Floats expected = values_of(gradient(x_));
  set_gradient(x_, {});
  backward(sum(checkpoint(two, inputs)[0]));
  EXPECT_EQ(values_of(gradient(x_)), expected);
  // Both, one after the other.
  set_gradient(x_, {});
  const std::vector<Tensor> plain = two(inputs);
  backward(sum(plain[0]), {.retain_graph = true});
  backward(sum(plain[1]));
  const Floats both = values_of(gradient(x_));
  set_gradient(x_, {});
  const std::vector<Tensor> out = checkpoint(two, inputs);
  backward(sum(out[0]), {.retain_graph = true});
  backward(sum(out[1]));
  EXPECT_EQ(values_of(gradient(x_)), both);
}

TEST_F(CheckpointTest, RecomputesAgainForARetainedGraph) {
  int runs = 0;
  const Segment counted = [&](std::span<const Tensor> in) {
    ++runs;
    return std::vector<Tensor>{block(in[0])};
  };
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  const Tensor loss = sum(run(counted, x_));
  device_->synchronize();
  backward(loss, {.retain_graph = true});
  const Floats once = values_of(gradient(w1_));
  overwrite_gradient(w1_);
  backward(loss);
  EXPECT_EQ(values_of(gradient(w1_)), once);
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(hooks.log().live, 0U);
}

TEST_F(CheckpointTest, GivesTheGradientOfAGradient) {
  const Segment cube = [](std::span<const Tensor> in) {
    return std::vector<Tensor>{multiply(multiply(in[0], in[0]), in[0])};
  };
  const Tensor x = test::tensor_of(*device_, {2}, {2, 3});
  set_requires_grad(x, true);
  const Tensor inputs[] = {x};
  const Tensor y = sum(run(cube, x));
  const Tensor first = gradients(y, inputs, {.create_graph = true}).front();
  EXPECT_EQ(values_of(first), (Floats{12, 27}));
  EXPECT_EQ(values_of(gradients(sum(first), inputs).front()), (Floats{12, 18}));
}

TEST_F(CheckpointTest, StopsBeforeWhatOnlyADroppedOutputNeeds) {
  int ops = 0;
  const Segment two = [&](std::span<const Tensor> in) {
    const Tensor first = gelu(in[0]);
    ++ops;
    Tensor second = gelu(first);
    ++ops;
    second = gelu(second);
    ++ops;
    return std::vector<Tensor>{first, second};
  };
  const Tensor inputs[] = {x_};
  const Tensor kept = checkpoint(two, inputs)[0];
  backward(sum(kept));
  EXPECT_EQ(ops, 3) << "the recompute ends where the first op saves its input";
}

TEST_F(CheckpointTest, TakesAJobsOwnOps) {
  class Square final : public Function {
   public:
    const char* name() const noexcept override { return "square"; }
    std::vector<Tensor> forward(Saved& saved, std::span<const Tensor> in) override {
      saved.save(in);
      return {multiply(in[0], in[0])};
    }
    std::vector<Tensor> backward(Saved& saved, std::span<const Tensor> g) override {
      EXPECT_EQ(saved.saved().size(), 1U);
      return {scale(multiply(saved.saved().front(), g[0]), 2)};
    }
  };
  const Segment own = [&](std::span<const Tensor> in) {
    const Tensor inputs[] = {block(in[0])};
    return autograd::apply(std::make_shared<Square>(), inputs);
  };
  set_random({.seed = 9, .step = 4});
  const Tensor inputs[] = {x_};
  const std::vector<Floats> expected = results(own(inputs).front());
  set_random({.seed = 9, .step = 4});
  EXPECT_EQ(results(run(own, x_)), expected);
}

TEST_F(CheckpointTest, FreesWhatIsRemadeNodeByNode) {
  const Tensor x = test::random_leaf(*device_, {1 << 14}, 1);
  const Segment chain = [](std::span<const Tensor> in) {
    Tensor h = in[0];
    for (int i = 0; i < 8; ++i) h = gelu(h);
    return std::vector<Tensor>{h};
  };
  const Tensor loss = sum(run(chain, x));
  device_->synchronize();
  const std::size_t before = device_->memory().figures().lent.total();
  backward(loss);
  EXPECT_EQ(device_->memory().figures().lent.total(), before + gradient(x).bytes());
}

}  // namespace
}  // namespace ebb::autograd
