#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops.h"
#include "tests/support/host_hooks.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::autograd {
namespace {

using test::values_of;
using testing::ElementsAre;
using testing::HasSubstr;
using Floats = std::vector<float>;

// A small model of two linear layers with dropout; the segments share its weights.
class CheckpointTest : public testing::Test {
 protected:
  ~CheckpointTest() override {
    x_ = w1_ = w2_ = {};
    EXPECT_EQ(device_->memory().figures().lent.total(), 0U) << "bytes are left behind";
  }

  explicit CheckpointTest(const device::Order& order = {})
      : device_(test::checked_sim(order)) {
    x_ = test::random_leaf(*device_, {3, 8}, 1);
    w1_ = test::random_parameter(*device_, {16, 8}, 2);
    w2_ = test::random_parameter(*device_, {8, 16}, 3);
    set_random({.seed = 9, .step = 4});
  }

  // Uses x twice, and draws random numbers.
  Tensor block(const Tensor& x) const {
    Tensor h = linear_gelu(x, w1_, {});
    h = linear(h, w2_, {});
    return dropout_add(h, x, 0.3F);
  }
  Segment segment() const {
    return [this](std::span<const Tensor> in) { return std::vector<Tensor>{block(in[0])}; };
  }
  Tensor run(const Segment& segment, const Tensor& x) const {
    const Tensor inputs[] = {x};
    return checkpoint(segment, inputs).front();
  }
  // Gradients of sum(y^2 / 2) and of y's parameters, and y's values; clears them.
  std::vector<Floats> results(const Tensor& y) const {
    std::vector<Floats> values = {values_of(y)};
    backward(sum(scale(multiply(y, y), 0.5F)));
    for (const Tensor& leaf : {x_, w1_, w2_}) {
      values.push_back(values_of(gradient(leaf)));
      set_gradient(leaf, {});
    }
    return values;
  }
  std::vector<Floats> plain(int blocks) const {
    set_random({.seed = 9, .step = 4});
    Tensor h = x_;
    for (int i = 0; i < blocks; ++i) h = block(h);
    return results(h);
  }
  std::vector<Floats> checkpointed(int blocks) const {
    set_random({.seed = 9, .step = 4});
    Tensor h = x_;
    for (int i = 0; i < blocks; ++i) h = run(segment(), h);
    return results(h);
  }

  std::unique_ptr<device::CheckDevice> device_;
  Tensor x_;
  Tensor w1_;
  Tensor w2_;
};

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
                         [](const auto& order) {
                           std::string name = test::describe(order.param);
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name;
                         });

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

TEST_F(CheckpointTest, NamesTheOpThatSavesSomethingElseTheSecondTime) {
  int runs = 0;
  const Segment unsteady = [&](std::span<const Tensor> in) {
    const Tensor h = ++runs == 1 ? gelu(in[0]) : gelu(view(in[0], {24}));
    return std::vector<Tensor>{gelu(view(h, {24}))};
  };
  const Tensor loss = sum(run(unsteady, x_));
  try {
    backward(loss);
    FAIL() << "the segment is not the same";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(error.what(), HasSubstr("gelu"));
  }
}

TEST_F(CheckpointTest, NamesTheOpThatIsMissingTheSecondTime) {
  int runs = 0;
  const Segment forgetful = [&](std::span<const Tensor> in) {
    const Tensor h = gelu(in[0]);
    return std::vector<Tensor>{++runs == 1 ? linear(h, w1_, {}) : h};
  };
  const Tensor loss = sum(run(forgetful, x_));
  try {
    backward(loss);
    FAIL() << "the segment is not the same";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("linear"));
  }
}

TEST_F(CheckpointTest, SurvivesAnExceptionInForward) {
  const Segment failing = [&](std::span<const Tensor> in) -> std::vector<Tensor> {
    block(in[0]);
    throw Error(absl::StatusCode::kAborted, "no forward today");
  };
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  EXPECT_THROW(run(failing, x_), Error);
  EXPECT_EQ(hooks.log().live, 0U);
  const std::vector<Floats> expected = plain(1);
  EXPECT_EQ(checkpointed(1), expected) << "training goes on";
}

TEST_F(CheckpointTest, SurvivesAnExceptionInTheRecompute) {
  bool fail = false;
  const Segment failing = [&](std::span<const Tensor> in) {
    const Tensor h = block(in[0]);
    EBB_CHECK(!fail, kAborted, "no recompute today");
    return std::vector<Tensor>{block(h)};
  };
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  {
    const Tensor loss = sum(run(failing, x_));
    fail = true;
    const std::size_t before = device_->memory().figures().lent.total();
    EXPECT_THROW(backward(loss), Error);
    EXPECT_LE(device_->memory().figures().lent.total(), before)
        << "what was remade until then is given up";
    EXPECT_EQ(phase(), device::Phase::kForward);
    EXPECT_EQ(hooks.log().ended, hooks.log().begun);
  }
  EXPECT_EQ(hooks.log().live, 0U);
  for (const Tensor& leaf : {x_, w1_, w2_}) set_gradient(leaf, {});
  const std::vector<Floats> expected = plain(2);
  EXPECT_EQ(checkpointed(2), expected) << "training goes on";
}

TEST_F(CheckpointTest, LeavesNothingBehindWithoutABackward) {
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  { const Tensor dropped = run(segment(), run(segment(), x_)); }
  EXPECT_EQ(hooks.log().live, 0U);
}

TEST_F(CheckpointTest, InterleavesGraphs) {
  const std::vector<Floats> expected = plain(2);
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  const auto forward = [&] {
    set_random({.seed = 9, .step = 4});
    return run(segment(), run(segment(), x_));
  };
  const Tensor a = forward();
  const Tensor b = forward();
  EXPECT_EQ(results(b), expected);
  const Tensor c = forward();
  EXPECT_EQ(results(a), expected);
  EXPECT_EQ(results(c), expected);
  EXPECT_EQ(hooks.log().live, 0U);
}

TEST_F(CheckpointTest, SeesAWriteToItsInput) {
  const Tensor h = scale(x_, 1);
  const Tensor loss = sum(run(segment(), h));
  add_in_place(h, detach(h));
  try {
    backward(loss);
    FAIL() << "the input moved on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(error.what(), HasSubstr("checkpoint"));
  }
}

TEST_F(CheckpointTest, SeesAWriteInsideOfTheSegment) {
  const Segment writing = [&](std::span<const Tensor> in) {
    const Tensor h = scale(in[0], 2);
    const Tensor y = gelu(h);
    add_in_place(h, in[0]);
    return std::vector<Tensor>{gelu(y), gelu(h)};
  };
  const Tensor inputs[] = {x_};
  const std::vector<Tensor> out = checkpoint(writing, inputs);
  EXPECT_THROW(backward(sum(add(out[0], out[1]))), Error);
}

TEST_F(CheckpointTest, RefusesBackwardInsideOfASegment) {
  const Segment inside = [&](std::span<const Tensor> in) {
    const Tensor y = gelu(in[0]);
    const Tensor inputs[] = {in[0]};
    return gradients(sum(y), inputs);
  };
  EXPECT_THROW(run(inside, x_), Error);
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

TEST_F(CheckpointTest, HooksInsideOfASegmentGetNothing) {
  test::HostHooks hooks;
  const Segment hooked = [&](std::span<const Tensor> in) {
    const HooksScope scope(&hooks);
    return std::vector<Tensor>{block(in[0])};
  };
  const std::vector<Floats> expected = plain(1);
  set_random({.seed = 9, .step = 4});
  EXPECT_EQ(results(run(hooked, x_)), expected);
  EXPECT_TRUE(hooks.log().packed.empty());
}

TEST_F(CheckpointTest, IsJustTheSegmentWithoutGradients) {
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  const NoGrad no_grad;
  EXPECT_FALSE(requires_grad(run(segment(), x_)));
  EXPECT_TRUE(hooks.log().packed.empty());
  const Tensor inputs[] = {x_};
  EXPECT_THROW(checkpoint(nullptr, inputs), Error);
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
