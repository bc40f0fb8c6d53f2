// What EventModel says and does when nothing can happen any more.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/device/sim/event_model.h"
#include "tests/support/errors.h"
#include "tests/support/model_log.h"

namespace ebb::device {
namespace {

using test::fails_with;
using test::ModelLog;
using Unit = EventModel::Unit;

class Deadlock : public ::testing::Test {
 protected:
  auto fails_saying(const std::string& a, const std::string& b, const std::string& c) {
    return fails_with(absl::StatusCode::kFailedPrecondition, a, b, c);
  }

  ModelLog log_;
  EventModel model_{{{1, 0}, {1, 0}, std::nullopt}, log_};
};

TEST_F(Deadlock, NamesTheOpThatBlocksAndOnWhomItWaits) {
  const auto compute = model_.add_stream("compute");
  const auto line = model_.add_timeline("transfer 7");
  model_.wait(compute, {line, 3}, {StallCause::kH2DLate, "engine.unpack"}, 0);
  const auto end = model_.submit(compute, {"linear.forward", Unit::kCompute, 1}, 0);
  EXPECT_THAT(
      [&] {
        model_.advance_until({compute, end});
      },
      fails_saying("'linear.forward' of stream 'compute'",
                   "value 3 of timeline 'transfer 7' (engine.unpack)",
                   "nothing that was submitted signals it"));
}

TEST_F(Deadlock, FollowsTheWaitsFromStreamToStream) {
  const auto a = model_.add_stream("a");
  const auto b = model_.add_stream("b");
  const auto line = model_.add_timeline("t");
  model_.wait(b, {line, 1}, {}, 0);
  const auto first = model_.submit(b, {"copy", Unit::kD2H, 0, 1}, 0);
  model_.wait(a, {b, first}, {}, 0);
  const auto end = model_.submit(a, {"use", Unit::kCompute, 1}, 0);
  EXPECT_THAT(
      [&] {
        model_.advance_until({a, end});
      },
      fails_saying("'use' of stream 'a' waits", "'copy' of stream 'b' waits",
                   "timeline 't'"));
}

TEST_F(Deadlock, SeesStreamsThatWaitForEachOther) {
  const auto a = model_.add_stream("a");
  const auto b = model_.add_stream("b");
  const auto line = model_.add_timeline("t");
  model_.wait(a, {line, 1}, {}, 0);
  const auto op = model_.submit(a, {"op", Unit::kCompute, 1}, 0);
  model_.wait(b, {a, op}, {}, 0);
  model_.signal(b, {line, 1}, 0);
  EXPECT_THAT(
      [&] {
        model_.advance_until({a, op});
      },
      fails_saying("'op' of stream 'a'", "stream 'b'", "wait for each other"));
}

TEST_F(Deadlock, GoesOnOnceItIsBroken) {
  const auto a = model_.add_stream("a");
  const auto line = model_.add_timeline("t");
  const auto waited = model_.wait(a, {line, 1}, {}, 0);
  const auto op = model_.submit(a, {"op", Unit::kCompute, 4}, 0);
  ASSERT_FALSE(model_.try_advance_until({a, op}));
  const EventModel::Deadlock deadlock = model_.break_deadlock({a, op});
  EXPECT_EQ(deadlock.wait, (Point{a, waited}));
  EXPECT_EQ(deadlock.set, (Point{line, 1}));
  EXPECT_TRUE(model_.try_advance_until({a, op}));
  EXPECT_EQ(model_.now(), 4);
}

TEST_F(Deadlock, SaysThatTheProfileStopsItsLink) {
  const auto sends = [&](const std::vector<LinkChange>& changes) {
    EventModel model({{1, 0}, {1, 0}, std::nullopt, changes}, log_);
    const auto out = model.add_stream("out");
    model.submit(out, {"copy", Unit::kD2H, 0, 4}, 0);
    model.submit(out, {"copy", Unit::kD2H, 0, 4}, 0);
    model.advance_until({out, 2});
  };
  EXPECT_NO_THROW(sends({{0.5, 0.5, 0}}));
  EXPECT_THAT(
      [&] {
        sends({{0.25, 0, 1}});
      },
      fails_saying("as the profile's link to the host stops at 0.25 s", "link_changes",
                   "ticket 2 of stream 'out'"));
  EXPECT_THAT(
      [&] {
        sends({{0.25, 0.5, 0}, {1, 0, 0}});
      },
      fails_saying("as the profile's link to the host stops at 1 s", "never ends", ""));
}

TEST_F(Deadlock, SetsATimelineThatTheHostItselfWaitsFor) {
  const auto line = model_.add_timeline("t");
  ASSERT_FALSE(model_.try_advance_until({line, 2}));
  EXPECT_EQ(model_.break_deadlock({line, 2}).wait, std::nullopt);
  EXPECT_TRUE(model_.reached(Point{line, 2}));
}

TEST_F(Deadlock, IsNotSeenWhereACallbackStillSubmitsTheSignal) {
  const auto a = model_.add_stream("a");
  const auto b = model_.add_stream("b");
  const auto line = model_.add_timeline("t");
  log_.on_callback = [&](Point, double time) { model_.signal(b, {line, 1}, time); };
  model_.wait(a, {line, 1}, {}, 0);
  const auto op = model_.submit(a, {"op", Unit::kCompute, 4}, 0);
  model_.submit(b, {"copy", Unit::kD2H, 0, 3}, 0);
  model_.call_back(b, 0);
  EXPECT_NO_THROW(model_.advance_until({a, op}));
  EXPECT_EQ(model_.now(), 7);
}

}  // namespace
}  // namespace ebb::device
