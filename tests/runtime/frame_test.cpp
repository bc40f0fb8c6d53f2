// Segments that are recomputed as needed: by what their hooks answer, save by save.

#include "runtime/autograd/checkpoint/frame.h"

#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops/ops.h"
#include "tests/support/checkpoint_fixture.h"
#include "tests/support/errors.h"
#include "tests/support/host_hooks.h"
#include "tests/support/sim_devices.h"
#include "tests/support/sim_orders.h"
#include "tests/support/tape_fixture.h"
#include "tests/support/tensors.h"

namespace ebb::autograd {
namespace {

using test::HostHooks;
using test::values_of;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using Floats = std::vector<float>;

class FrameTest : public test::CheckpointTest {
 protected:
  explicit FrameTest(const device::Order& order = {}) : CheckpointTest(order) {}

  Tensor needed(const Segment& segment, const Tensor& x) const {
    const Tensor inputs[] = {x};
    return checkpoint(segment, inputs, Recompute::kAsNeeded).front();
  }
  std::vector<Floats> as_needed(int blocks) const {
    set_random({.seed = 9, .step = 4});
    Tensor h = x_;
    for (int i = 0; i < blocks; ++i) h = needed(segment(), h);
    return results(h);
  }
  // Blocks in segments of all kinds, nested at random: as many as the tree has leaves.
  Tensor tree(std::mt19937_64& random, const Tensor& x, int depth, int& blocks) const {
    if (depth == 0) {
      ++blocks;
      return block(x);
    }
    const std::uint64_t seed = random();
    // Its shape must be the same when it runs again.
    const auto inside = std::make_shared<int>();
    const Segment segment = [this, seed, depth, inside](std::span<const Tensor> in) {
      std::mt19937_64 own(seed);
      *inside = 0;
      Tensor h = in[0];
      for (std::uint64_t i = own() % 3 + 1; i > 0; --i)
        h = tree(own, h, depth - 1, *inside);
      return std::vector<Tensor>{h};
    };
    const Tensor inputs[] = {x};
    const Tensor y = kinds(segment, inputs, random() % 3);
    blocks += *inside;
    return y;
  }
  static Tensor kinds(const Segment& segment, std::span<const Tensor> inputs,
                      std::uint64_t kind) {
    if (kind == 0) return segment(inputs).front();
    const auto recompute = kind == 1 ? Recompute::kAlways : Recompute::kAsNeeded;
    return checkpoint(segment, inputs, recompute).front();
  }
  std::size_t lent() const { return device_->memory().figures().lent.total(); }
};

class FrameOrderTest : public FrameTest, public testing::WithParamInterface<device::Order> {
 protected:
  FrameOrderTest() : FrameTest(GetParam()) {}
};

TEST_P(FrameOrderTest, EveryPatternOfAnswersGivesThePlainRunsBits) {
  const std::vector<Floats> expected = plain(3);
  std::size_t remade = 0;
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    HostHooks hooks(HostHooks::random(seed + GetParam().seed * 100));
    const HooksScope scope(&hooks);
    EXPECT_EQ(as_needed(3), expected) << "pattern " << seed;
    EXPECT_EQ(hooks.log().order, hooks.log().unpacked) << "pattern " << seed;
    EXPECT_EQ(hooks.log().live, 0U);
    remade += hooks.log().remade.size();
  }
  EXPECT_GT(remade, 25U);
}

TEST_P(FrameOrderTest, SegmentsOfAllKindsNest) {
  for (std::uint64_t seed = 1; seed <= 15; ++seed) {
    HostHooks hooks(HostHooks::random(seed));
    std::mt19937_64 random(seed + GetParam().seed * 100);
    int blocks = 0;
    std::vector<Floats> found;
    {
      const HooksScope scope(&hooks);
      set_random({.seed = 9, .step = 4});
      found = results(tree(random, x_, 3, blocks));
    }
    EXPECT_EQ(found, plain(blocks)) << "seed " << seed;
    EXPECT_EQ(hooks.log().live, 0U);
  }
}

TEST_P(FrameOrderTest, RetainedGraphsAreRecomputedAgain) {
  const std::vector<Floats> expected = plain(2);
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    HostHooks hooks(HostHooks::random(seed));
    const HooksScope scope(&hooks);
    set_random({.seed = 9, .step = 4});
    const Tensor y = needed(segment(), needed(segment(), x_));
    const Tensor loss = sum(scale(multiply(y, y), 0.5F));
    for (int run = 0; run < 3; ++run) {
      backward(loss, {.retain_graph = run < 2});
      const std::vector<Floats> found = {values_of(y), values_of(gradient(x_)),
                                         values_of(gradient(w1_)),
                                         values_of(gradient(w2_))};
      EXPECT_EQ(found, expected) << "pattern " << seed << ", run " << run;
      for (const Tensor& leaf : {x_, w1_, w2_}) set_gradient(leaf, {});
    }
    EXPECT_EQ(hooks.log().live, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, FrameOrderTest,
                         testing::ValuesIn(test::twenty_four_orders()),
                         [](const auto& order) { return test::order_name(order.param); });

TEST_F(FrameTest, AsksForEachSaveWhetherItIsToBeMadeAgain) {
  std::vector<bool> asked;
  HostHooks hooks([&](const SaveSite& site) {
    asked.push_back(site.can_recompute);
    return HostHooks::remake(site);
  });
  const HooksScope scope(&hooks);
  const Tensor y = needed(segment(), x_);
  // Its input cannot be made from less than itself; parameters are nobody's affair.
  EXPECT_THAT(hooks.log().packed, ElementsAre("linear", "checkpoint (input)"));
  EXPECT_THAT(hooks.log().remade, ElementsAre("gelu", "linear"));
  EXPECT_THAT(asked, ElementsAre(false, true, false, true));
}

TEST_F(FrameTest, GivesTheGradientOfAGradientForEveryPattern) {
  const Segment cube = [](std::span<const Tensor> in) {
    const Tensor twice = scale(in[0], 2);
    return std::vector<Tensor>{scale(multiply(multiply(twice, in[0]), twice), 0.25F)};
  };
  const Tensor x = test::tensor_of(*device_, {2}, {2, 3});
  set_requires_grad(x, true);
  const Tensor inputs[] = {x};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    HostHooks hooks(HostHooks::random(seed));
    const HooksScope scope(&hooks);
    const Tensor y = sum(needed(cube, x));
    const Tensor first = gradients(y, inputs, {.create_graph = true}).front();
    EXPECT_EQ(values_of(first), (Floats{12, 27}));
    EXPECT_EQ(values_of(gradients(sum(first), inputs).front()), (Floats{12, 18}));
  }
}

TEST_F(FrameTest, StopsAfterTheLastTensorThatIsToBeMadeAgain) {
  int gelus = 0;
  const Segment chain = [&](std::span<const Tensor> in) {
    Tensor h = in[0];
    for (int i = 0; i < 6; ++i, ++gelus) h = gelu(h);
    return std::vector<Tensor>{h};
  };
  int asked = 0;
  // The second and the third gelu's inputs; the others stay.
  HostHooks hooks([&](const SaveSite& site) {
    if (!site.can_recompute) return HostHooks::Answer::kKeep;
    const bool again = asked++ < 2;
    return again ? HostHooks::Answer::kRemake : HostHooks::Answer::kKeep;
  });
  const HooksScope scope(&hooks);
  const Tensor loss = sum(needed(chain, x_));
  EXPECT_EQ(gelus, 6);
  backward(loss);
  EXPECT_EQ(gelus, 6 + 2) << "the third gelu saves its input before it runs";
}

TEST_F(FrameTest, RunsAgainOnceForAllItsSlots) {
  int runs = 0;
  const Segment counted = [&](std::span<const Tensor> in) {
    ++runs;
    return std::vector<Tensor>{block(block(in[0]))};
  };
  HostHooks hooks(HostHooks::remake);
  const HooksScope scope(&hooks);
  backward(sum(needed(counted, x_)));
  EXPECT_EQ(runs, 2);
}

TEST_F(FrameTest, IsGoneWhereNothingIsLeftToARecompute) {
  // What the segment holds (here a tensor) goes when it has run, as in the plain run.
  for (const bool keep : {false, true}) {
    HostHooks hooks(keep);
    const HooksScope scope(&hooks);
    const Tensor big = test::random_tensor(*device_, {1 << 14}, 5);
    const std::size_t before = lent();
    Tensor held = scale(big, 2);
    Segment holds = [held, this](std::span<const Tensor> in) {
      return std::vector<Tensor>{block(in[0])};
    };
    held = {};
    const Tensor inputs[] = {x_};
    const Tensor y = checkpoint(std::move(holds), inputs, Recompute::kAsNeeded).front();
    EXPECT_LT(lent(), before + big.bytes());
    EXPECT_THAT(hooks.log().packed, testing::Not(Contains("checkpoint (input)")));
  }
}

TEST_F(FrameTest, CostsNothingWhereNothingIsLeftToARecompute) {
  const auto figures = [](bool segments) {
    const auto device = test::dry_sim();
    const Tensor w1 = test::random_parameter(*device, {4096, 512}, 2);
    const Tensor w2 = test::random_parameter(*device, {512, 4096}, 3);
    HostHooks hooks(/*keep=*/true);
    const HooksScope scope(&hooks);
    Tensor h = test::random_leaf(*device, {64, 512}, 1);
    const Segment segment = [&](std::span<const Tensor> in) {
      Tensor y = linear_gelu(in[0], w1, {});
      y = linear(y, w2, {});
      return std::vector<Tensor>{dropout_add(y, in[0], 0.1F)};
    };
    for (int i = 0; i < 6; ++i) {
      const Tensor inputs[] = {std::exchange(h, {})};
      h = (segments ? checkpoint(segment, inputs, Recompute::kAsNeeded) : segment(inputs))
              .front();
    }
    backward(sum(h));
    h = {};
    device->synchronize();
    const auto memory = device->memory().figures();
    return std::tuple(device->now(), memory.peak_bytes, memory.lent.total());
  };
  EXPECT_EQ(figures(true), figures(false));
}

TEST_F(FrameTest, IsNoSegmentWithoutHooksOrGradients) {
  int runs = 0;
  const Segment counted = [&](std::span<const Tensor> in) {
    ++runs;
    return std::vector<Tensor>{block(in[0])};
  };
  backward(sum(needed(counted, x_)));
  EXPECT_EQ(runs, 1);
  HostHooks hooks(HostHooks::remake);
  const HooksScope scope(&hooks);
  const NoGrad no_grad;
  EXPECT_FALSE(requires_grad(needed(counted, x_)));
  EXPECT_THAT(hooks.log().packed, IsEmpty());
}

TEST_F(FrameTest, ASegmentWhoseInputIsWrittenKeepsWhatItSavesAfterwards) {
  HostHooks hooks(HostHooks::remake);
  const HooksScope scope(&hooks);
  const Segment writing = [](std::span<const Tensor> in) {
    const Tensor h = scale(in[0], 3);
    add_in_place(in[0], in[0]);
    return std::vector<Tensor>{gelu(h)};
  };
  const Tensor x = scale(x_, 1);
  const Floats before = values_of(x);
  backward(sum(needed(writing, x)));
  EXPECT_THAT(hooks.log().remade, IsEmpty());
  const Floats found = values_of(gradient(x_));
  set_gradient(x_, {});
  backward(sum(gelu(scale(x_, 3))));
  EXPECT_EQ(found, values_of(gradient(x_)));
}

TEST_F(FrameTest, SeesAWriteToItsInputAfterIt) {
  HostHooks hooks([](const SaveSite& site) {
    return site.can_recompute ? HostHooks::Answer::kRemake : HostHooks::Answer::kKeep;
  });
  const HooksScope scope(&hooks);
  const Segment two = [](std::span<const Tensor> in) {
    return std::vector<Tensor>{gelu(scale(in[0], 2))};
  };
  const Tensor x = scale(x_, 1);
  const Tensor loss = sum(needed(two, x));
  add_in_place(x, detach(x_));
  EXPECT_THAT([&] { backward(loss); },
              test::fails_with(absl::StatusCode::kFailedPrecondition,
                               "checkpoint saved for backward was written in place"));
}

TEST_F(FrameTest, SurvivesExceptionsOfTheSegmentAndOfTheHooks) {
  const std::vector<Floats> expected = plain(2);
  for (int fail_at = 0; fail_at < 7; ++fail_at) {
    int asked = 0;
    HostHooks hooks([&](const SaveSite& site) {
      EBB_CHECK(asked++ != fail_at, kResourceExhausted, "no room");
      return HostHooks::remake(site);
    });
    {
      const HooksScope scope(&hooks);
      EXPECT_THROW(as_needed(2), Error) << fail_at;
      EXPECT_EQ(hooks.log().live, 0U);
      EXPECT_EQ(as_needed(2), expected) << "training goes on";
    }
    EXPECT_EQ(hooks.log().live, 0U);
  }
  for (const bool again : {false, true}) {
    bool fail = !again;
    HostHooks hooks(HostHooks::remake);
    const HooksScope scope(&hooks);
    const Segment failing = [&](std::span<const Tensor> in) {
      const Tensor h = block(in[0]);
      EBB_CHECK(!fail, kAborted, "not today");
      return std::vector<Tensor>{block(h)};
    };
    if (!again) {
      EXPECT_THROW(needed(failing, x_), Error);
    } else {
      const Tensor loss = sum(needed(failing, x_));
      fail = true;
      EXPECT_THROW(backward(loss), Error);
      EXPECT_FALSE(recomputing());
    }
    EXPECT_EQ(phase(), device::Phase::kForward);
    for (const Tensor& leaf : {x_, w1_, w2_}) set_gradient(leaf, {});
    EXPECT_EQ(as_needed(2), expected) << "training goes on";
  }
}

TEST_F(FrameTest, RefusesHooksThatLeaveWhatCannotBeMadeAgain) {
  HostHooks hooks([](const SaveSite&) { return HostHooks::Answer::kRemake; });
  const HooksScope scope(&hooks);
  EXPECT_EQ(test::code_of([&] { needed(segment(), x_); }),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(test::code_of([&] { block(x_); }), absl::StatusCode::kFailedPrecondition);
}

TEST_F(FrameTest, AnInnerSegmentMakesItsOwnAgain) {
  int outer_runs = 0;
  int inner_runs = 0;
  const Segment inner = [&](std::span<const Tensor> in) {
    ++inner_runs;
    return std::vector<Tensor>{block(in[0])};
  };
  const Segment outer = [&](std::span<const Tensor> in) {
    ++outer_runs;
    const Tensor h = scale(in[0], 2);
    return std::vector<Tensor>{needed(inner, h)};
  };
  HostHooks hooks(HostHooks::remake);
  const HooksScope scope(&hooks);
  const Tensor y = needed(outer, x_);
  backward(sum(y));
  EXPECT_EQ(inner_runs, 3) << "for the outer one as well, which makes the inner's input";
  EXPECT_EQ(outer_runs, 2);
}

}  // namespace
}  // namespace ebb::autograd
