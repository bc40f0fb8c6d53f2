#include "runtime/device/sim/event_model.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/model_log.h"

namespace ebb::device {
namespace {

using test::ModelLog;
using Unit = EventModel::Unit;
using ::testing::ElementsAre;

constexpr double kMebibyte = 1 << 20;
constexpr EventModel::Links kLinks{{2, 0}, {4, 0}, std::nullopt};  // Bytes per second.

// A step by hand: a compute queue and a copy queue each way.
class GoldenExample : public ::testing::Test {
 protected:
  explicit GoldenExample(const EventModel::Links& links) : model(links, log) {}

  Point run(const char* name, double ticks) {
    return {compute, model.submit(compute, {name, Unit::kCompute, ticks}, 0)};
  }
  Point copy(EventModel::Source stream, const char* name, Unit unit, double bytes,
             Point after) {
    model.wait(stream, after, {}, 0);
    return {stream, model.submit(stream, {name, unit, 0, bytes}, 0)};
  }

  ModelLog log;
  EventModel model;
  const EventModel::Source compute = model.add_stream("compute");
  const EventModel::Source out = model.add_stream("out");
  const EventModel::Source in = model.add_stream("in");
};

class WithoutACap : public GoldenExample {
 protected:
  WithoutACap() : GoldenExample({{2, 0}, {2, 0}, std::nullopt}) {}
};
class WithACap : public GoldenExample {
 protected:
  WithACap() : GoldenExample({{3, 0}, {3, 0}, 4}) {}
};

// `uniform-4-h2d2` of golden/README.md, its plan replayed by hand.
TEST_F(WithoutACap, ReplaysTheGoldenExample) {
  const Point f1 = run("F1", 5);
  copy(out, "D2H1", Unit::kD2H, 18, f1);
  const Point f2 = run("F2", 5);
  copy(out, "D2H2", Unit::kD2H, 4, f2);
  run("F3", 5);
  run("F4", 5);
  const Point b4 = run("B4", 10);
  const Point h2 = copy(in, "H2D2", Unit::kH2D, 4, b4);
  const Point b3 = run("B3", 10);
  const Point h1 = copy(in, "H2D1", Unit::kH2D, 18, b3);
  model.wait(compute, h2, {}, 0);
  run("R2", 5);
  run("B2", 10);
  model.wait(compute, h1, {}, 0);
  const Point b1 = run("B1", 10);
  model.advance_until(b1);
  EXPECT_THAT(log.spans(),
              ElementsAre("F1 0-5", "F2 5-10", "D2H1 5-14", "F3 10-15", "D2H2 14-16",
                          "F4 15-20", "B4 20-30", "H2D2 30-32", "B3 30-40", "R2 40-45",
                          "H2D1 40-49", "B2 45-55", "B1 55-65"));
}

// `random-2-h3d3c4`: the cap is 4 where the rates add up to 6.
TEST_F(WithACap, ReplaysTheGoldenExample) {
  const Point f1 = run("F1", 5);
  copy(out, "D2H1", Unit::kD2H, 12, f1);
  run("F2", 5);
  const Point b2 = run("B2", 10);
  copy(out, "D2Hg2", Unit::kD2H, 24, b2);
  const Point h1 = copy(in, "H2D1", Unit::kH2D, 12, b2);
  model.wait(compute, h1, {}, 0);
  run("R1", 5);
  const Point b1 = run("B1", 10);
  const Point g1 = copy(out, "D2Hg1", Unit::kD2H, 12, b1);
  model.advance_until(g1);
  // 12 bytes at 2, then 12 at 3.
  EXPECT_THAT(log.spans(),
              ElementsAre("F1 0-5", "D2H1 5-9", "F2 5-10", "B2 10-20", "H2D1 20-26",
                          "D2Hg2 20-30", "R1 26-31", "B1 31-41", "D2Hg1 41-45"));
}

TEST(EventModel, ADoubleBufferedPipelineTakesFillPlusTheSlowerPart) {
  for (const double op_seconds : {2.0, 3.0, 8.0}) {
    constexpr int kBlocks = 100;
    constexpr double kCopy = 3;  // 12 bytes at 4 a second.
    ModelLog log;
    EventModel model(kLinks, log);
    const auto compute = model.add_stream("compute");
    const auto in = model.add_stream("in");
    std::vector<Point> ops;
    for (int i = 0; i < kBlocks; ++i) {
      // Two buffers: block i goes where op i - 2 was.
      if (i >= 2) model.wait(in, ops[static_cast<std::size_t>(i - 2)], {}, 0);
      const Point copied{in, model.submit(in, {"copy", Unit::kH2D, 0, 12}, 0)};
      model.wait(compute, copied, {}, 0);
      ops.push_back(
          {compute, model.submit(compute, {"op", Unit::kCompute, op_seconds}, 0)});
    }
    model.advance_until(ops.back());
    EXPECT_EQ(model.now(),
              kCopy + op_seconds + (kBlocks - 1) * std::max(op_seconds, kCopy));
  }
}

TEST(EventModel, WithoutLatencyChunksTakeAsLongAsTheWhole) {
  for (const int chunks : {1, 4, 64}) {
    ModelLog log;
    EventModel model(kLinks, log);
    const auto out = model.add_stream("out");
    std::uint64_t last = 0;
    for (int i = 0; i < chunks; ++i) {
      last = model.submit(out, {"chunk", Unit::kD2H, 0, kMebibyte / chunks}, 0);
    }
    model.advance_until({out, last});
    EXPECT_EQ(model.now(), kMebibyte / 2);
  }
}

TEST(EventModel, EachCopyPaysItsLatency) {
  ModelLog log;
  EventModel model({{2, 0.5}, {4, 0.25}, std::nullopt}, log);
  const auto out = model.add_stream("out");
  for (int i = 0; i < 4; ++i) model.submit(out, {"chunk", Unit::kD2H, 0, 8}, 0);
  model.advance_until({out, 4});
  EXPECT_EQ(model.now(), 4 * (0.5 + 8.0 / 2));
}

TEST(EventModel, WithInfiniteBandwidthOnlyComputeTakesTime) {
  ModelLog log;
  EventModel model({{EventModel::kForever, 0}, {EventModel::kForever, 0}, 1}, log);
  const auto compute = model.add_stream("compute");
  const auto out = model.add_stream("out");
  const auto in = model.add_stream("in");
  Point before{compute, 0};
  for (int i = 0; i < 50; ++i) {
    model.wait(out, before, {}, 0);
    const Point left{out, model.submit(out, {"out", Unit::kD2H, 0, 1e12}, 0)};
    model.wait(in, left, {}, 0);
    const Point back{in, model.submit(in, {"in", Unit::kH2D, 0, 1e12}, 0)};
    model.wait(compute, back, {}, 0);
    before = {compute, model.submit(compute, {"op", Unit::kCompute, 2}, 0)};
  }
  model.advance_until(before);
  EXPECT_EQ(model.now(), 100);
}

// One machine, jobs with heads (release) and tails (delivery): served by readiness, the
// makespan is max over i <= j of head + the work from there + tail (Schrage's schedule).
TEST(EventModel, OneMachineWithHeadsAndTailsServesByReadiness) {
  struct Job {
    double head;
    double work;
    double tail;
  };
  const std::vector<Job> jobs{{4, 6, 2}, {0, 5, 9}, {11, 3, 1}, {4, 2, 7}};
  ModelLog log;
  EventModel model({{1, 0}, {1, 0}, std::nullopt}, log);
  std::vector<Point> ends;
  for (const Job& job : jobs) {
    // The head is submission time; the tail a unit that is never contended: probes of time.
    const auto stream = model.add_stream("job");
    ends.push_back(
        {stream, model.submit(stream, {"work", Unit::kCompute, job.work}, job.head)});
  }
  std::vector<double> done;
  for (const Point& end : ends) {
    model.advance_until(end);
  }
  double makespan = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    done.push_back(*model.time_of(ends[i]));
    makespan = std::max(makespan, done[i] + jobs[i].tail);
  }
  // Job 1 first (0-5), then 0 before 3 (ready together, submitted first), then 2.
  EXPECT_THAT(done, ElementsAre(11, 5, 16, 13));
  EXPECT_EQ(makespan, 20);
}

TEST(EventModel, ServesOneUnitFromManyStreamsByReadiness) {
  ModelLog log;
  EventModel model(kLinks, log);
  const auto a = model.add_stream("a");
  const auto b = model.add_stream("b");
  model.submit(a, {"late", Unit::kCompute, 1}, 2);
  model.submit(b, {"early", Unit::kCompute, 5}, 1);
  model.advance_to(100);
  EXPECT_THAT(log.spans(), ElementsAre("early 1-6", "late 6-7"));
  EXPECT_EQ(model.now(), 100);
}

TEST(EventModel, BothDirectionsShareTheCapOnlyWhileBothMoveBytes) {
  ModelLog log;
  EventModel model({{4, 1}, {4, 0}, 4}, log);  // Each gets 2 while both run.
  const auto out = model.add_stream("out");
  const auto in = model.add_stream("in");
  model.submit(out, {"out", Unit::kD2H, 0, 8}, 0);  // Latency until 1.
  model.submit(in, {"in", Unit::kH2D, 0, 8}, 0);    // 4 alone until 1, 4 more at 2 until 3.
  model.advance_to(100);                            // 4 at 2 until 3, 4 more at 4 until 4.
  EXPECT_THAT(log.spans(), ElementsAre("in 0-3", "out 0-4"));
}

TEST(EventModel, StallsAndWorkFillTheComputeQueue) {
  ModelLog log;
  EventModel model(kLinks, log);
  const auto compute = model.add_stream("compute");
  const auto in = model.add_stream("in");
  model.submit(compute, {"first", Unit::kCompute, 2}, 1);
  const Point copied{in, model.submit(in, {"copy", Unit::kH2D, 0, 20}, 0)};  // Until 5.
  model.wait(compute, copied, {StallCause::kH2DLate, "use"}, 1);
  model.submit(compute, {"second", Unit::kCompute, 2}, 2);
  model.submit(compute, {"third", Unit::kCompute, 1}, 9, {StallCause::kHostFull, "pool"});
  model.advance_to(100);
  ASSERT_EQ(log.ended.size(), 4U);
  double sum = 0;
  for (const ModelLog::Entry& entry : log.ended) {
    if (entry.span.unit == Unit::kCompute) {
      sum += entry.span.stall + entry.span.end - entry.span.start;
    }
  }
  EXPECT_EQ(sum, 10);
  EXPECT_EQ(log.ended[2].span.stall, 2);
  EXPECT_EQ(log.ended[2].span.blame.cause, StallCause::kH2DLate);
  EXPECT_STREQ(log.ended[2].span.blame.site, "use");
  EXPECT_EQ(log.ended[3].span.stall, 2);
  EXPECT_EQ(log.ended[3].span.blame.cause, StallCause::kHostFull);
}

TEST(EventModel, ProbesTakeNoTimeAndNoUnit) {
  ModelLog log;
  EventModel model(kLinks, log);
  const auto a = model.add_stream("a");
  const auto b = model.add_stream("b");
  model.submit(a, {"long", Unit::kCompute, 10}, 0);
  model.submit(b, {"probe", Unit::kCompute, 3, 0, true}, 1);
  model.advance_to(1);
  EXPECT_TRUE(model.reached(Point{b, 1}));
  EXPECT_EQ(model.time_of({b, 1}), 1);
}

TEST(EventModel, CallbacksSubmitAtTheirTime) {
  ModelLog log;
  EventModel model(kLinks, log);
  const auto out = model.add_stream("out");
  int left = 3;
  log.on_callback = [&](Point point, double time) {
    if (--left == 0) return;
    model.submit(point.source, {"chunk", Unit::kD2H, 0, 4}, time + 0.5);
    model.call_back(point.source, time + 0.5);
  };
  model.submit(out, {"chunk", Unit::kD2H, 0, 4}, 0);
  model.call_back(out, 0);
  model.advance_to(100);
  EXPECT_THAT(log.spans(), ElementsAre("chunk 0-2", "chunk 2.5-4.5", "chunk 5-7"));
}

TEST(EventModel, RemembersWhenThingsEndedWithinItsHistory) {
  ModelLog log;
  log.keep = false;
  EventModel model(kLinks, log);
  const auto a = model.add_stream("a");
  constexpr std::uint64_t kOps = EventModel::kHistory + 10;
  for (std::uint64_t i = 0; i < kOps; ++i) {
    model.submit(a, {"op", Unit::kCompute, 1}, static_cast<double>(i));
    model.advance_to(static_cast<double>(i));
  }
  model.advance_until({a, kOps});
  EXPECT_EQ(model.time_of({a, kOps}), static_cast<double>(kOps));
  EXPECT_EQ(model.time_of({a, 11}), 11);
  EXPECT_EQ(model.time_of({a, 10}), std::nullopt);
  EXPECT_EQ(model.time_of({a, kOps + 1}), std::nullopt);
}

TEST(EventModel, FindsTheTimeOfATimelinesValueAmongThoseSkipped) {
  ModelLog log;
  EventModel model(kLinks, log);
  const auto a = model.add_stream("a");
  const auto line = model.add_timeline("line");
  for (std::uint64_t value = 5; value <= 50; value += 5) {
    model.submit(a, {"op", Unit::kCompute, 1}, 0);
    model.signal(a, {line, value}, 0);
  }
  model.advance_to(100);
  EXPECT_EQ(model.time_of({line, 1}), 1);
  EXPECT_EQ(model.time_of({line, 5}), 1);
  EXPECT_EQ(model.time_of({line, 6}), 2);
  EXPECT_EQ(model.time_of({line, 50}), 10);
  EXPECT_EQ(model.time_of({line, 51}), std::nullopt);
}

}  // namespace
}  // namespace ebb::device
