#include "offload/report/step_record.h"

#include "gtest/gtest.h"

#include "tests/support/op_records.h"

namespace ebb::offload {
namespace {

using namespace test;
using device::Phase;
using device::StallCause;
using Unit = device::OpRecord::Unit;

const FakeSource kStream;

TEST(StepTimeTest, SplitsAStepIntoComputeRecomputeAndStallsByCause) {
  const StepOps ops{
      compute_op(kStream.at(1), Phase::kForward, 1, 2, 1, StallCause::kHost),
      compute_op(kStream.at(2), Phase::kRecompute, 5, 3, 2, StallCause::kH2DLate),
      copy_op(Unit::kH2D, "offload.h2d", 0, 100, 8),
      compute_op(kStream.at(3), Phase::kBackward, 12, 5, 4, StallCause::kD2HBacklog),
      compute_op(kStream.at(4), Phase::kOptimizer, 17, 1),
  };
  const StepTime time = step_time(ops);
  EXPECT_DOUBLE_EQ(time.compute, 8);
  EXPECT_DOUBLE_EQ(time.recompute, 3);
  EXPECT_DOUBLE_EQ(time.stall[static_cast<std::size_t>(StallCause::kHost)], 1);
  EXPECT_DOUBLE_EQ(time.stall[static_cast<std::size_t>(StallCause::kH2DLate)], 2);
  EXPECT_DOUBLE_EQ(time.stall[static_cast<std::size_t>(StallCause::kD2HBacklog)], 4);
  EXPECT_DOUBLE_EQ(time.step, 18);  // From 0 to 18.
}

device::OpRecord with_memory(device::OpRecord op, std::size_t activations,
                             std::size_t sent) {
  op.live_activation_bytes = activations;
  op.live_sent_bytes = sent;
  return op;
}

TEST(BoundInputTest, FindsTheOpsThatMakeAndUseEachBlock) {
  const StepOps ops{
      with_memory(compute_op(kStream.at(1), Phase::kForward, 0, 1), 100, 40),
      with_memory(compute_op(kStream.at(2), Phase::kForward, 1, 2), 130, 60),
      with_memory(compute_op(kStream.at(5), Phase::kRecompute, 3, 3), 90, 50),
      with_memory(compute_op(kStream.at(7), Phase::kBackward, 6, 4), 80, 30),
      compute_op(kStream.at(9), Phase::kOptimizer, 10, 5),
  };
  const std::vector<SentBlock> blocks{
      {.bytes = 40,
       .stage = 0,
       .used = true,
       .made = kStream.at(1),
       .before_use = kStream.at(5)},
      {.bytes = 20,
       .stage = 1,
       .used = true,
       .made = kStream.at(2),
       .before_use = kStream.at(3)},
      {.bytes = 7, .stage = 1, .used = false, .made = kStream.at(2), .before_use = {}},
  };
  device::Capability capability;
  capability.duplex_bytes_per_second = 3;
  const BoundInput input = bound_input(ops, blocks, 1000, capability);
  ASSERT_EQ(input.micro_steps.size(), 1U);
  const BoundMicroStep& micro = input.micro_steps[0];
  ASSERT_EQ(micro.forward.size(), 2U);
  ASSERT_EQ(micro.backward.size(), 2U);
  EXPECT_EQ(micro.forward[0].sent_bytes, 40U);
  EXPECT_EQ(micro.forward[1].sent_bytes, 20U);  // Nobody used the other one.
  EXPECT_EQ(micro.forward[1].sent_blocks, 1U);
  // Live and not sent, plus what the op makes.
  EXPECT_EQ(micro.forward[0].other_bytes, 60U + 40U);
  EXPECT_EQ(micro.forward[1].other_bytes, 70U + 27U);
  EXPECT_EQ(micro.forward[1].live_sent_bytes, 60U);
  EXPECT_EQ(micro.backward[0].sent_bytes, 20U);  // The first op behind ticket 3.
  EXPECT_EQ(micro.backward[1].sent_bytes, 40U);
  EXPECT_TRUE(micro.backward[0].recompute);
  EXPECT_DOUBLE_EQ(input.optimizer_seconds, 5);
  EXPECT_EQ(input.activation_bytes, 1000U);
  EXPECT_EQ(input.duplex_bytes_per_second, 3);
}

TEST(BoundInputTest, TellsMicroStepsApart) {
  StepOps ops;
  std::uint64_t ticket = 0;
  for (int micro = 0; micro < 3; ++micro) {
    for (const Phase phase : {Phase::kForward, Phase::kForward, Phase::kBackward}) {
      ++ticket;
      ops.push_back(compute_op(kStream.at(ticket), phase, static_cast<double>(ticket), 1));
    }
  }
  ops.push_back(compute_op(kStream.at(++ticket), Phase::kOptimizer, 10, 1));
  const BoundInput input = bound_input(ops, {}, 0, {});
  ASSERT_EQ(input.micro_steps.size(), 3U);
  for (const BoundMicroStep& micro : input.micro_steps) {
    EXPECT_EQ(micro.forward.size(), 2U);
    EXPECT_EQ(micro.backward.size(), 1U);
  }
}

TEST(BoundInputTest, TakesWhatNoForwardMadeForThereFromTheBeginning) {
  const StepOps ops{compute_op(kStream.at(3), Phase::kForward, 0, 1),
                    compute_op(kStream.at(4), Phase::kForward, 1, 1)};
  const std::vector<SentBlock> blocks{
      {.bytes = 5, .stage = -1, .used = true, .made = {}, .before_use = {}}};
  EXPECT_EQ(bound_input(ops, blocks, 0, {}).micro_steps[0].forward[0].sent_bytes, 5U);
}

// Else the first micro-step would seem to send what those after it do.
TEST(BoundInputTest, CountsWhatNoForwardMadeInTheMicroStepThatUsesIt) {
  StepOps ops;
  for (std::uint64_t ticket = 1; ticket <= 6; ++ticket) {
    ops.push_back(compute_op(kStream.at(ticket),
                             ticket % 2 == 1 ? Phase::kForward : Phase::kBackward,
                             static_cast<double>(ticket), 1));
  }
  std::vector<SentBlock> blocks;
  for (std::uint64_t before = 1; before <= 5; before += 2) {
    blocks.push_back({.bytes = before,
                      .stage = -1,
                      .used = true,
                      .made = {},
                      .before_use = kStream.at(before)});
  }
  const BoundInput input = bound_input(ops, blocks, 0, {});
  ASSERT_EQ(input.micro_steps.size(), 3U);
  for (std::size_t micro = 0; micro < 3; ++micro) {
    EXPECT_EQ(input.micro_steps[micro].forward[0].sent_bytes, 2 * micro + 1);
    EXPECT_EQ(input.micro_steps[micro].forward[0].sent_blocks, 1U);
    EXPECT_EQ(input.micro_steps[micro].backward[0].sent_bytes, 2 * micro + 1);
  }
}

TEST(BoundInputTest, OfNoOpsIsEmpty) {
  EXPECT_TRUE(bound_input({}, {}, 0, {}).micro_steps.empty());
}

}  // namespace
}  // namespace ebb::offload
