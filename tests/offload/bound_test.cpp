#include "offload/report/bound.h"

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace ebb::offload {
namespace {

constexpr std::size_t kPlenty = std::size_t{1} << 60;

using Ops = std::vector<BoundOp>;

BoundOp op(double seconds, std::size_t sent_bytes, std::size_t live_sent_bytes = 0,
           std::size_t other_bytes = 0) {
  BoundOp result;
  result.seconds = seconds;
  result.sent_bytes = sent_bytes;
  result.sent_blocks = sent_bytes > 0 ? 1 : 0;
  result.live_sent_bytes = live_sent_bytes;
  result.other_bytes = other_bytes;
  return result;
}

device::LinkRate link(double rate, double latency = 0) { return {rate, latency}; }

// --- the formulas of the design, written down once more, without prefix sums ---

double c(const Ops& ops, std::size_t first, std::size_t last, double room,
         const device::LinkRate& rate) {
  double bytes = 0;
  double blocks = 0;
  for (std::size_t k = first; k <= last; ++k) {
    bytes += static_cast<double>(ops[k - 1].sent_bytes);
    blocks += static_cast<double>(ops[k - 1].sent_blocks);
  }
  if (bytes <= room) return 0;
  return (bytes - room) / rate.bytes_per_second +
         rate.latency_seconds * blocks * (bytes - room) / bytes;
}

double seconds(const Ops& ops, std::size_t first, std::size_t last) {
  double sum = 0;
  for (std::size_t k = first; k <= last; ++k) sum += ops[k - 1].seconds;
  return sum;
}

double room_at(const Ops& ops, std::size_t j, double budget) {
  double most = 0;
  for (const BoundOp& one : ops) {
    most = std::max(most, static_cast<double>(one.live_sent_bytes));
  }
  if (j == 0 || j > ops.size()) return std::min(budget, most);
  const auto other = static_cast<double>(ops[j - 1].other_bytes);
  return std::min(std::max(0.0, budget - other), most);
}

double brute_forward(const Ops& ops, double budget, const device::LinkRate& rate) {
  double bound = 0;
  for (std::size_t j = 1; j <= ops.size(); ++j) {
    for (std::size_t i = 1; i <= j; ++i) {
      bound = std::max(bound, seconds(ops, 1, i) +
                                  c(ops, i, j, room_at(ops, j + 1, budget), rate) +
                                  seconds(ops, j + 1, ops.size()));
    }
  }
  return bound;
}

double brute_backward(const Ops& ops, double budget, const device::LinkRate& rate) {
  double bound = 0;
  for (std::size_t j = 1; j <= ops.size(); ++j) {
    for (std::size_t i = 0; i < j; ++i) {
      bound = std::max(bound, seconds(ops, 1, i) +
                                  c(ops, i + 1, j, room_at(ops, i, budget), rate) +
                                  seconds(ops, j, ops.size()));
    }
  }
  return bound;
}

TEST(BoundTest, AgreesWithItsFormulaOnRandomSteps) {
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    Ops ops(1 + random() % 9);
    for (BoundOp& one : ops) {
      one = op(static_cast<double>(random() % 5), random() % 3 * (random() % 7),
               random() % 8, random() % 8);
    }
    const std::size_t budget = random() % 20;
    const device::LinkRate rate = link(1 + static_cast<double>(random() % 3),
                                       0.25 * static_cast<double>(random() % 3));
    EXPECT_NEAR(forward_bound(ops, budget, rate),
                brute_forward(ops, static_cast<double>(budget), rate), 1e-12)
        << "round " << round;
    EXPECT_NEAR(backward_bound(ops, budget, rate),
                brute_backward(ops, static_cast<double>(budget), rate), 1e-12)
        << "round " << round;
  }
}

// --- no schedule beats it: the best one for a small chain, by search ---

// The least time of a forward in which op k may begin only when the sent bytes on the
// device, its own included, are at most `room`; copies run one after the other, in any
// order.
double best_forward(const Ops& ops, double room, double rate) {
  // Copying in the order of making, as early as possible, is optimal for one machine with
  // heads; so is starting each op as soon as the room is there.
  double time = 0;
  double link_free = 0;
  std::vector<std::pair<double, double>> copies;  // End, bytes.
  double made = 0;
  for (const BoundOp& one : ops) {
    const auto bytes = static_cast<double>(one.sent_bytes);
    double start = time;
    double gone = 0;
    for (std::size_t k = 0; k <= copies.size(); ++k) {
      if (made + bytes - gone <= room) break;
      if (k == copies.size()) return std::numeric_limits<double>::infinity();
      start = std::max(start, copies[k].first);
      gone += copies[k].second;
    }
    time = start + one.seconds;
    made += bytes;
    if (bytes == 0) continue;
    link_free = std::max(link_free, time) + bytes / rate;
    copies.emplace_back(link_free, bytes);
  }
  return time;
}

TEST(BoundTest, NoScheduleOfAForwardIsFaster) {
  std::mt19937 random(13);
  int met = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::size_t room = 4 + random() % 12;
    Ops ops(1 + random() % 8);
    for (BoundOp& one : ops) {
      one = op(static_cast<double>(random() % 4), random() % 5);
      one.other_bytes = one.sent_bytes;
      one.live_sent_bytes = room;
    }
    const double best = best_forward(ops, static_cast<double>(room), 1);
    // What is on the device at an op's start is `room` at most, its own bytes included, so
    // the others have the rest.
    const double bound = forward_bound(ops, room, link(1));
    EXPECT_LE(bound, best + 1e-9) << "round " << round;
    if (bound > best - 1e-9) ++met;
  }
  EXPECT_GT(met, 300);  // And it is met often: the bound says something.
}

// --- closed forms ---

TEST(BoundTest, ADoubleBufferedPipelineIsBoundByItsSlowerPart) {
  // n layers of f seconds, each sends x bytes; two of them fit on the device.
  constexpr std::size_t kLayers = 10;
  constexpr std::size_t kBytes = 100;
  for (const double rate : {50.0, 100.0, 400.0}) {
    Ops ops;
    for (std::size_t i = 0; i < kLayers; ++i)
      ops.push_back(op(1, kBytes, 2 * kBytes, kBytes));
    const double copy = kBytes / rate;
    // With one of the two being made, one waits: the first is made, and all but the last
    // two must have left when forward ends.
    const double expected =
        std::max(static_cast<double>(kLayers), 1 + (kLayers - 2) * copy + 1);
    EXPECT_DOUBLE_EQ(forward_bound(ops, 2 * kBytes, link(rate)),
                     std::max(expected, 1 + (kLayers - 2) * copy));
    EXPECT_DOUBLE_EQ(backward_bound(ops, 2 * kBytes, link(rate)), expected);
  }
}

TEST(BoundTest, AnInfinitelyFastLinkCostsNothing) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  BoundInput input;
  input.micro_steps.push_back({{op(1, 10, 0, 10), op(2, 20, 0, 20)}, {op(3, 30)}});
  input.optimizer_seconds = 0.5;
  input.d2h = link(kInfinite);
  input.h2d = link(kInfinite);
  const Bound bound = step_bound(input);
  EXPECT_DOUBLE_EQ(bound.seconds, 6.5);
  EXPECT_DOUBLE_EQ(bound.forward_seconds, 3);
  EXPECT_DOUBLE_EQ(bound.backward_seconds, 3);
  EXPECT_DOUBLE_EQ(bound.sent_bytes, 30);
}

// What anyone can work out from the report's own figures.
TEST(BoundTest, IsNeverBelowTheClosedFormOfItsFigures) {
  std::mt19937 random(17);
  for (int round = 0; round < 500; ++round) {
    BoundInput input;
    BoundMicroStep micro;
    const std::size_t n = 1 + random() % 6;
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t bytes = random() % 9;
      const auto time = static_cast<double>(random() % 3);
      micro.forward.push_back(op(time, bytes, random() % 30));
      micro.backward.insert(micro.backward.begin(), op(time, bytes, random() % 30));
    }
    input.micro_steps.assign(1 + random() % 3, micro);
    input.activation_bytes = random() % 40;
    input.optimizer_seconds = 1;
    input.d2h = link(1 + static_cast<double>(random() % 3), 0.5);
    input.h2d = link(1 + static_cast<double>(random() % 3), 0.25);
    if (random() % 2 == 0) input.duplex_bytes_per_second = 1.5;
    const Bound b = step_bound(input);
    const auto k = static_cast<double>(input.micro_steps.size());
    const double left = b.sent_bytes - b.kept_bytes;
    const double weak = k * (std::max(b.forward_seconds, left / b.d2h_bytes_per_second) +
                             std::max(b.recompute_seconds + b.backward_seconds,
                                      left / b.h2d_bytes_per_second)) +
                        b.optimizer_seconds;
    EXPECT_GE(b.seconds + 1e-9, weak) << "round " << round;
    EXPECT_GE(b.seconds + 1e-9, k * 2 * left / b.duplex_bytes_per_second)
        << "round " << round;
  }
}

TEST(BoundTest, WithRoomForAllNothingHasToCross) {
  BoundInput input;
  input.micro_steps.push_back({{op(1, 10, 60)}, {op(1, 10, 60)}});
  input.activation_bytes = kPlenty;
  input.d2h = link(1);
  input.h2d = link(1);
  EXPECT_DOUBLE_EQ(step_bound(input).seconds, 2);
  EXPECT_DOUBLE_EQ(step_bound(input).kept_bytes, 10) << "no more than was sent";
}

TEST(BoundTest, WhatTheLastOpMakesNeedNotHaveLeftWhenForwardEnds) {
  // The host was not ahead of the only op: its block was not known as sent at its start.
  const Ops forward{op(1, 100)};
  const Ops backward{op(1, 100, 100)};
  BoundInput input;
  input.micro_steps = {{forward, backward}};
  input.activation_bytes = kPlenty;
  input.d2h = input.h2d = link(10);
  EXPECT_DOUBLE_EQ(step_bound(input).seconds, 2);
}

TEST(BoundTest, ALatencyCountsOnceABlock) {
  // Two blocks of 5 bytes, no room: 10 bytes and two t0, behind the first op.
  const Ops ops{op(1, 5), op(1, 5)};
  EXPECT_DOUBLE_EQ(forward_bound(ops, 0, link(10, 0.5)), 1 + 1 + 2 * 0.5);
}

TEST(BoundTest, TheDuplexCapBindsBothDirectionsTogether) {
  BoundInput input;
  input.micro_steps.push_back({{op(1, 1000)}, {op(1, 1000)}});
  input.d2h = link(1000);
  input.h2d = link(1000);
  EXPECT_DOUBLE_EQ(step_bound(input).seconds, 4);
  EXPECT_DOUBLE_EQ(step_bound(input).duplex_bytes_per_second, 2000);
  input.duplex_bytes_per_second = 100;
  EXPECT_DOUBLE_EQ(step_bound(input).seconds, 20);
}

TEST(BoundTest, MicroStepsAddUpAndTheOptimizerComesOnce) {
  BoundInput input;
  const BoundMicroStep micro{{op(1, 100, 50)}, {op(2, 100, 50)}};
  input.micro_steps = {micro, micro, micro};
  input.optimizer_seconds = 0.25;
  input.d2h = link(10);
  input.h2d = link(10);
  const Bound bound = step_bound(input);
  EXPECT_DOUBLE_EQ(bound.seconds, 3 * (1 + 10 + 10 + 2) + 0.25);
  EXPECT_DOUBLE_EQ(bound.sent_bytes, 100);
  EXPECT_DOUBLE_EQ(bound.kept_bytes, 50);
}

}  // namespace
}  // namespace ebb::offload
