#include "offload/report/timeline.h"

#include "gtest/gtest.h"

#include "tests/support/op_records.h"

namespace ebb::offload {
namespace {

using namespace test;
using device::Phase;
using Unit = device::OpRecord::Unit;

const FakeSource kStream;

device::OpRecord of_stage(device::OpRecord op, std::int32_t stage) {
  op.stage = stage;
  return op;
}

TEST(TimelineTest, JoinsOpsOfOneUnitPhaseAndStageThatFollowEachOther) {
  const StepOps ops{
      of_stage(compute_op(kStream.at(1), Phase::kForward, 10, 1), 0),
      of_stage(compute_op(kStream.at(2), Phase::kForward, 12, 2, 1), 0),
      copy_op(Unit::kD2H, "offload.d2h", 11, 4, 64),
      of_stage(compute_op(kStream.at(3), Phase::kForward, 14, 1), 1),
      of_stage(compute_op(kStream.at(4), Phase::kForward, 15, 1), 0),
  };
  const auto json = timeline(ops);
  ASSERT_EQ(json.size(), 4U);
  EXPECT_EQ(json[0]["unit"], "compute");
  EXPECT_EQ(json[0]["phase"], "forward");
  EXPECT_EQ(json[0]["stage"], 0);
  EXPECT_EQ(json[0]["start"], 0.0);
  EXPECT_EQ(json[0]["end"], 4.0);
  EXPECT_EQ(json[0]["busy"], 3.0);
  EXPECT_EQ(json[0]["ops"], 2);
  EXPECT_EQ(json[1]["unit"], "d2h");
  EXPECT_EQ(json[1]["stage"], nullptr);
  EXPECT_EQ(json[1]["bytes"], 64);
  EXPECT_EQ(json[2]["stage"], 1);
  EXPECT_EQ(json[3]["stage"], 0);
  EXPECT_TRUE(timeline({}).empty());
}

TEST(StagesTest, AddsUpEachLayersTimeAndBytes) {
  const StepOps ops{
      of_stage(compute_op(kStream.at(1), Phase::kForward, 0, 1), 0),
      of_stage(compute_op(kStream.at(2), Phase::kForward, 1, 2, 0.5), 1),
      of_stage(compute_op(kStream.at(3), Phase::kRecompute, 3, 3), 1),
      of_stage(compute_op(kStream.at(4), Phase::kBackward, 6, 4), 1),
      compute_op(kStream.at(5), Phase::kOptimizer, 10, 1),
  };
  const std::vector<SentBlock> blocks{
      {.bytes = 5, .stage = 1, .used = true, .made = {}, .before_use = {}},
      {.bytes = 6, .stage = 1, .used = true, .made = {}, .before_use = {}}};
  const auto json = stages(ops, blocks);
  ASSERT_EQ(json.size(), 2U);
  EXPECT_EQ(json[0]["forward_seconds"], 1.0);
  EXPECT_EQ(json[1]["forward_seconds"], 2.0);
  EXPECT_EQ(json[1]["recompute_seconds"], 3.0);
  EXPECT_EQ(json[1]["backward_seconds"], 4.0);
  EXPECT_EQ(json[1]["stall_seconds"], 0.5);
  EXPECT_EQ(json[1]["offloaded_bytes"], 11);
}

}  // namespace
}  // namespace ebb::offload
