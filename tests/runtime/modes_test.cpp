#include "runtime/autograd/modes.h"

#include <latch>
#include <thread>

#include <gtest/gtest.h>

#include "runtime/autograd/autograd.h"
#include "tests/support/host_hooks.h"

namespace ebb::autograd {
namespace {

TEST(Modes, AreSetByScopesAndPutBack) {
  EXPECT_TRUE(grad_enabled());
  EXPECT_TRUE(training());
  EXPECT_EQ(stage(), -1);
  test::HostHooks hooks;
  {
    const NoGrad no_grad;
    const TrainingScope evaluate(false);
    const StageScope in_stage(3);
    const HooksScope with(&hooks);
    EXPECT_FALSE(grad_enabled());
    EXPECT_FALSE(training());
    EXPECT_EQ(stage(), 3);
    EXPECT_EQ(modes().hooks, &hooks);
    {
      const HooksScope without(nullptr);
      EXPECT_EQ(modes().hooks, nullptr);
    }
    EXPECT_EQ(modes().hooks, &hooks);
  }
  EXPECT_TRUE(grad_enabled());
  EXPECT_TRUE(training());
  EXPECT_EQ(stage(), -1);
  EXPECT_EQ(modes().hooks, nullptr);
}

TEST(Modes, PhaseIsForwardWhereGradientsAreOnUnlessAScopeSaysOtherwise) {
  EXPECT_EQ(phase(), device::Phase::kForward);
  {
    const NoGrad no_grad;
    EXPECT_EQ(phase(), device::Phase::kOther);
    const PhaseScope optimizer(device::Phase::kOptimizer);
    EXPECT_EQ(phase(), device::Phase::kOptimizer);
  }
  EXPECT_EQ(phase(), device::Phase::kForward);
}

TEST(Modes, BelongToTheirThread) {
  const NoGrad no_grad;
  std::latch both(2);
  bool other_enabled = false;
  std::jthread other([&] {
    both.arrive_and_wait();
    other_enabled = grad_enabled();
  });
  both.arrive_and_wait();
  other.join();
  EXPECT_TRUE(other_enabled);
  EXPECT_FALSE(grad_enabled());
}

TEST(Modes, RandomOpsAreCountedFromTheKey) {
  set_random({.seed = 5, .step = 2, .op = 10, .first_sample = 8});
  EXPECT_EQ(next_random().op, 10U);
  const RandomKey second = next_random();
  EXPECT_EQ(second.op, 11U);
  EXPECT_EQ(second.seed, 5U);
  EXPECT_EQ(second.step, 2U);
  EXPECT_EQ(second.first_sample, 8U);
}

TEST(Modes, ScopePutsBackAll) {
  set_random({.seed = 1});
  {
    const ModesScope restore;
    set_random({.seed = 2});
    modes().stage = 9;
    modes().grad_enabled = false;
  }
  EXPECT_EQ(next_random().seed, 1U);
  EXPECT_EQ(stage(), -1);
  EXPECT_TRUE(grad_enabled());
}

}  // namespace
}  // namespace ebb::autograd
