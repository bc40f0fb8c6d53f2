// What goes wrong in and around checkpointed segments.

#include <algorithm>
#include <memory>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops/ops.h"
#include "tests/support/checkpoint_fixture.h"
#include "tests/support/errors.h"
#include "tests/support/host_hooks.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::autograd {
namespace {

using test::values_of;
using testing::ElementsAre;
using testing::HasSubstr;
using Floats = std::vector<float>;

using CheckpointFailuresTest = test::CheckpointTest;

TEST_F(CheckpointFailuresTest, NamesTheOpThatSavesSomethingElseTheSecondTime) {
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

TEST_F(CheckpointFailuresTest, NamesTheOpThatIsMissingTheSecondTime) {
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

TEST_F(CheckpointFailuresTest, RefusesASegmentThatKeepsTheEndOfItsRecomputeForItself) {
  for (const bool goes_on : {false, true}) {
    int runs = 0;
    const Segment greedy = [&](std::span<const Tensor> in) {
      Tensor h = in[0];
      try {
        h = gelu(in[0]);
      } catch (...) {
        // What it must not do: the last save of the recompute ends it so.
      }
      if (++runs == 2 && goes_on) h = gelu(in[0]);
      return std::vector<Tensor>{h};
    };
    const Tensor loss = sum(run(greedy, x_));
    EXPECT_THAT([&] { backward(loss); },
                test::fails_with(absl::StatusCode::kFailedPrecondition,
                                 "must let unknown exceptions pass"));
  }
}

// Hands out what it is given; the n-th that is asked for is lost.
class LosingHooks final : public SavedTensorHooks {
 public:
  int asks_left = 1;
  int used = 0;

  PackResult pack(const Tensor& tensor, const SaveSite&) override {
    return std::make_unique<Packed>(*this, tensor);
  }
  void begin_backward(std::span<PackedTensor* const>) override {}
  void end_backward() noexcept override {}

 private:
  class Packed final : public PackedTensor {
   public:
    Packed(LosingHooks& hooks, Tensor tensor) : hooks_(hooks), tensor_(std::move(tensor)) {}
    Tensor unpack() override {
      EBB_CHECK(hooks_.asks_left-- > 0, kDataLoss, "it is lost");
      return tensor_;
    }
    void used() noexcept override { ++hooks_.used; }

   private:
    LosingHooks& hooks_;
    const Tensor tensor_;
  };
};

TEST_F(CheckpointFailuresTest, IsOverWithTheInputsThatItGotWhereTheNextOneIsLost) {
  LosingHooks hooks;
  const HooksScope scope(&hooks);
  const Segment two = [](std::span<const Tensor> in) {
    return std::vector<Tensor>{gelu(multiply(in[0], in[1]))};
  };
  {
    const Tensor inputs[] = {scale(x_, 2), scale(x_, 3)};
    const Tensor loss = sum(checkpoint(two, inputs).front());
    EXPECT_THAT([&] { backward(loss); },
                test::fails_with(absl::StatusCode::kDataLoss, "it is lost"));
    EXPECT_EQ(hooks.used, 1);
  }
}

TEST_F(CheckpointFailuresTest, SurvivesAnExceptionInForward) {
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

TEST_F(CheckpointFailuresTest, SurvivesAnExceptionInTheRecompute) {
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

TEST_F(CheckpointFailuresTest, LeavesNothingBehindWithoutABackward) {
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  { const Tensor dropped = run(segment(), run(segment(), x_)); }
  EXPECT_EQ(hooks.log().live, 0U);
}

TEST_F(CheckpointFailuresTest, InterleavesGraphs) {
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

TEST_F(CheckpointFailuresTest, SeesAWriteToItsInput) {
  const Tensor h = scale(x_, 1);
  const Tensor loss = sum(run(segment(), h));
  add_in_place(h, detach(h));
  EXPECT_THAT([&] { backward(loss); },
              test::fails_with(absl::StatusCode::kFailedPrecondition,
                               "checkpoint saved for backward was written in place"));
}

TEST_F(CheckpointFailuresTest, SeesAWriteInsideOfTheSegment) {
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

TEST_F(CheckpointFailuresTest, RefusesBackwardInsideOfASegment) {
  const Segment inside = [&](std::span<const Tensor> in) {
    const Tensor y = gelu(in[0]);
    const Tensor inputs[] = {in[0]};
    return gradients(sum(y), inputs);
  };
  EXPECT_THROW(run(inside, x_), Error);
}

TEST_F(CheckpointFailuresTest, HooksInsideOfASegmentGetNothing) {
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

TEST_F(CheckpointFailuresTest, IsJustTheSegmentWithoutGradients) {
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  const NoGrad no_grad;
  EXPECT_FALSE(requires_grad(run(segment(), x_)));
  EXPECT_TRUE(hooks.log().packed.empty());
  const Tensor inputs[] = {x_};
  EXPECT_THROW(checkpoint(nullptr, inputs), Error);
}

}  // namespace
}  // namespace ebb::autograd
