#include "runtime/device/order_clocks.h"

#include <gtest/gtest.h>

namespace ebb::device {
namespace {

// Three streams and two timelines.
class OrderClocksTest : public ::testing::Test {
 protected:
  OrderClocksTest() {
    for (int i = 0; i < 3; ++i) clocks_.add_stream();
    for (int i = 0; i < 2; ++i) clocks_.add_timeline();
  }
  Point submit(Source stream) {
    clocks_.submit(stream, ++tickets_[stream]);
    return {stream, tickets_[stream]};
  }
  Point wait(Source stream, Point point) {
    const Point here = submit(stream);
    clocks_.wait(stream, here.ticket, point);
    return here;
  }
  void signal(Source stream, Point timeline) {
    clocks_.signal(stream, submit(stream).ticket, timeline);
  }

  static constexpr Source kA = 0, kB = 1, kC = 2, kT = 3, kU = 4;
  OrderClocks clocks_;
  std::array<std::uint64_t, 3> tickets_{};
};

TEST_F(OrderClocksTest, AStreamIsOrderedAfterItself) {
  const Point op = submit(kA);
  EXPECT_TRUE(clocks_.ordered(kA, op));
  EXPECT_FALSE(clocks_.ordered(kB, op));
}

TEST_F(OrderClocksTest, WaitsOrderThroughOtherStreams) {
  const Point first = submit(kA);
  wait(kB, first);
  const Point second = submit(kB);
  wait(kC, second);
  EXPECT_TRUE(clocks_.ordered(kC, first));
  EXPECT_TRUE(clocks_.ordered(kC, second));
  const Point later = submit(kA);
  EXPECT_FALSE(clocks_.ordered(kC, later));
}

TEST_F(OrderClocksTest, AnEventMeansWhatItsStreamKnewThen) {
  const Point before = submit(kB);
  const Point other = submit(kA);
  wait(kB, other);
  wait(kC, before);
  EXPECT_TRUE(clocks_.ordered(kC, before));
  EXPECT_FALSE(clocks_.ordered(kC, other));
}

TEST_F(OrderClocksTest, ASignalCarriesTheOrderOfItsStream) {
  const Point op = submit(kA);
  signal(kA, {kT, 1});
  wait(kB, {kT, 1});
  EXPECT_TRUE(clocks_.ordered(kB, op));
}

TEST_F(OrderClocksTest, AWaitForALaterSignalOrdersOnceItIsThere) {
  wait(kB, {kT, 1});
  const Point through = submit(kB);
  wait(kC, through);  // Even those who waited for the waiter.
  EXPECT_TRUE(clocks_.ordered(kC, {kT, 1}));
  const Point op = submit(kA);
  EXPECT_FALSE(clocks_.ordered(kB, op));
  signal(kA, {kT, 1});
  EXPECT_TRUE(clocks_.ordered(kB, op));
  EXPECT_TRUE(clocks_.ordered(kC, op));
}

TEST_F(OrderClocksTest, AnEarlierValueComesBeforeALaterSignal) {
  const Point first = submit(kA);
  signal(kA, {kT, 2});
  const Point second = submit(kA);
  signal(kA, {kT, 4});
  wait(kB, {kT, 1});
  EXPECT_TRUE(clocks_.ordered(kB, first));
  EXPECT_FALSE(clocks_.ordered(kB, second));
  wait(kB, {kT, 3});
  EXPECT_TRUE(clocks_.ordered(kB, second));
}

TEST_F(OrderClocksTest, WhatTheHostHasSeenOrdersAllThatItSubmitsLater) {
  const Point op = submit(kA);
  const Point before = submit(kB);
  clocks_.learn(op);
  EXPECT_TRUE(clocks_.ordered(kB, op));
  submit(kB);
  wait(kC, before);
  EXPECT_TRUE(clocks_.clock(kB).covers(op));
  EXPECT_FALSE(clocks_.clock(kA).covers(before));
}

TEST_F(OrderClocksTest, ACallbackKnowsWhatItComesAfterAndNotWhatTheHostKnows) {
  const Point seen = submit(kA);
  clocks_.learn(seen);
  const Point unseen = submit(kC);
  const Point calls = submit(kC);
  clocks_.begin_call_back(calls);
  EXPECT_TRUE(clocks_.knows(unseen));
  submit(kB);
  clocks_.end_call_back();
  EXPECT_TRUE(clocks_.clock(kB).covers(unseen));
  EXPECT_FALSE(clocks_.knows(unseen));
  EXPECT_TRUE(clocks_.knows(seen));
}

TEST_F(OrderClocksTest, SignalsInACircleAreLookedUpOnce) {
  wait(kA, {kT, 1});
  wait(kB, {kU, 1});
  signal(kA, {kU, 1});
  signal(kB, {kT, 1});
  EXPECT_TRUE(clocks_.ordered(kA, {kU, 1}));
}

TEST_F(OrderClocksTest, StaysRightOverALongRun) {
  for (int step = 0; step < 20000; ++step) {
    const Point op = submit(kA);
    wait(kB, op);
    const Point copy = submit(kB);
    wait(kA, copy);
    if (step % 100 == 99) clocks_.learn(copy);
    EXPECT_TRUE(clocks_.ordered(kA, copy));
    EXPECT_FALSE(clocks_.ordered(kC, submit(kA)));
  }
}

}  // namespace
}  // namespace ebb::device
