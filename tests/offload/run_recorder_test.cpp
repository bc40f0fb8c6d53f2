#include "offload/report/run_recorder.h"

#include "gtest/gtest.h"

#include "tests/support/offload_world.h"
#include "tests/support/op_records.h"

namespace ebb::offload {
namespace {

using namespace test;
using device::Phase;
using Unit = device::OpRecord::Unit;

const FakeSource kStream;

device::Capability virtual_clock() {
  device::Capability capability;
  capability.virtual_clock = true;
  capability.d2h = capability.h2d = {1e9, 0};
  return capability;
}

void record_step(RunRecorder& recorder, double seconds) {
  recorder.begin_step();
  recorder.on_op(compute_op(kStream.at(1), Phase::kForward, 0, seconds));
  recorder.end_step({}, 0);
}

TEST(RunRecorderTest, GivesMeansOfTheStepsAfterTheFirst) {
  RunRecorder recorder(virtual_clock());
  EXPECT_EQ(recorder.figures().steps, 0);
  record_step(recorder, 100);
  EXPECT_DOUBLE_EQ(recorder.figures().step.step, 100);  // There is no other yet.
  record_step(recorder, 2);
  record_step(recorder, 4);
  EXPECT_DOUBLE_EQ(recorder.figures().step.step, 3);
  EXPECT_DOUBLE_EQ(recorder.figures().bound.seconds, 3);
  EXPECT_EQ(recorder.figures().steps, 2);
}

TEST(RunRecorderTest, LeavesOutWhatRunsBetweenSteps) {
  RunRecorder recorder(virtual_clock());
  record_step(recorder, 1);
  recorder.on_op(compute_op(kStream.at(2), Phase::kOther, 0, 50));  // Validation.
  record_step(recorder, 2);
  EXPECT_DOUBLE_EQ(recorder.figures().step.step, 2);
  EXPECT_EQ(recorder.last_step().size(), 1U);
}

TEST(RunRecorderTest, AddsUpTheCopiesOfTheEnginesBlocksOnly) {
  RunRecorder recorder(virtual_clock());
  recorder.begin_step();
  recorder.on_op(copy_op(Unit::kD2H, kPutOp, 0, 2, 100));
  recorder.on_op(copy_op(Unit::kH2D, kFetchOp, 0, 3, 200));
  recorder.on_op(copy_op(Unit::kH2D, "batch", 0, 50, 5000));
  recorder.end_step({}, 0);
  EXPECT_EQ(recorder.d2h().bytes, 100U);
  EXPECT_DOUBLE_EQ(recorder.d2h().busy_seconds, 2);
  EXPECT_EQ(recorder.h2d().bytes, 200U);
}

TEST(RunRecorderTest, OfARealStepTheStepIsFromBorderToBorderAndNoShorterThanItsBound) {
  for (const double rate : {1e9, 1.5e8}) {
    World world({.d2h_bytes_per_second = rate, .h2d_bytes_per_second = rate});
    RunRecorder recorder(world.device.capability());
    world.device.set_observer(&recorder);
    double border = 0;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      recorder.begin_step();
      std::vector<Saved> graph = forward(world, {.layers = 60}, seed);
      backward(world, graph, {});
      const Event end = world.device.current_stream().record();
      world.finish();
      recorder.end_step(world.engine->take_sent_blocks(),
                        world.device.memory().figures().peak_activation_bytes);
      const double before = std::exchange(border, *world.device.ended_at(end));
      const StepTime step = step_time(recorder.last_step());
      EXPECT_NEAR(step.step, border - before, 1e-12);
      EXPECT_NEAR(step.compute, 120e-3, 1e-9);
    }
    const TimeFigures figures = recorder.figures();
    EXPECT_GE(figures.step.step, figures.bound.seconds - 1e-9);
    EXPECT_LE(figures.step.step, 1.05 * figures.bound.seconds);
    EXPECT_EQ(figures.bound.sent_bytes, 60 * 256.0 * kKiB);
    EXPECT_EQ(figures.bound.fetched_bytes, 60 * 256.0 * kKiB);
    world.device.set_observer(nullptr);
  }
}

}  // namespace
}  // namespace ebb::offload
