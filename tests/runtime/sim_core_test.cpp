// The simulated device's clocks, order and memory figures.

#include "runtime/device/sim/sim_core.h"

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/device/check/check_device.h"
#include "tests/support/devices.h"
#include "tests/support/random_program.h"

namespace ebb::device {
namespace {

using test::DeviceKind;
using test::op;
using test::ProgramResult;
using test::RandomProgram;

constexpr WaitTag kTag{StallCause::kH2DLate, "test"};
constexpr int kActions = 400;

Profile submitting_profile() {
  Profile profile = test::slow_profile();
  profile.host_submit_seconds = 0.25;
  profile.launch_seconds = 0.5;
  profile.d2h = {1024, 0.125};
  profile.h2d = {2048, 0.0625};
  profile.duplex_bytes_per_second = 2000;
  return profile;
}

void expect_equal(const ProgramResult& a, const ProgramResult& b) {
  EXPECT_EQ(a.now, b.now);
  EXPECT_EQ(a.polls_true, b.polls_true);
  EXPECT_EQ(a.figures.peak_bytes, b.figures.peak_bytes);
  EXPECT_EQ(a.figures.peak_activation_bytes, b.figures.peak_activation_bytes);
  EXPECT_EQ(a.figures.at_peak.bytes, b.figures.at_peak.bytes);
  EXPECT_EQ(a.figures.reserved_bytes, b.figures.reserved_bytes);
  EXPECT_EQ(a.figures.live.total(), b.figures.live.total());
  ASSERT_EQ(a.records.size(), b.records.size());
  for (std::size_t i = 0; i < a.records.size(); ++i) {
    EXPECT_STREQ(a.records[i].name, b.records[i].name);
    EXPECT_EQ(a.records[i].start, b.records[i].start);
    EXPECT_EQ(a.records[i].end, b.records[i].end);
    EXPECT_EQ(a.records[i].stall, b.records[i].stall);
    EXPECT_EQ(a.records[i].cause, b.records[i].cause);
    EXPECT_EQ(a.records[i].live_activation_bytes, b.records[i].live_activation_bytes);
  }
}

ProgramResult run(const DeviceKind& kind, std::uint64_t seed) {
  const auto device = test::make_device(kind, submitting_profile());
  return RandomProgram(seed).run(*device, kActions);
}

class RandomPrograms : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomPrograms, ComputeTheSameInAllOrdersAndTakeAsLongDry) {
  const std::uint64_t seed = GetParam();
  const ProgramResult time = run({"time", {Order::Kind::kTime}}, seed);
  EXPECT_GT(time.records.size(), 50U);
  EXPECT_EQ(time.figures.live.total(), 0U);
  for (const DeviceKind& kind :
       std::vector<DeviceKind>{{"eager", {Order::Kind::kEager}},
                               {"fuzz", {Order::Kind::kFuzz, seed + 1}},
                               {"fuzz", {Order::Kind::kFuzz, seed + 2}}}) {
    const ProgramResult other = run(kind, seed);
    EXPECT_EQ(time.bytes, other.bytes);
    expect_equal(time, other);
  }
  expect_equal(time, run({"dry", {}, true}, seed));
}

TEST_P(RandomPrograms, AreSilentUnderTheCheckerAndTakeAsLong) {
  const std::uint64_t seed = GetParam();
  const ProgramResult plain = run({"time", {Order::Kind::kTime}}, seed);
  const DeviceKind fuzz{"fuzz", {Order::Kind::kFuzz, seed}};
  const auto device = make_check_device(test::make_device(fuzz, submitting_profile()));
  const ProgramResult checked = RandomProgram(seed).run(*device, kActions);
  EXPECT_EQ(device->order().violations, 0U);
  EXPECT_GT(device->order().accesses, 100U);
  EXPECT_EQ(plain.bytes, checked.bytes);
  expect_equal(plain, checked);
}

TEST_P(RandomPrograms, HaveThePeakThatTheirRecordsAddUpTo) {
  const ProgramResult result = run({"dry", {}, true}, GetParam());
  EXPECT_EQ(result.figures.peak_bytes, result.peak_by_hand);
}

TEST_P(RandomPrograms, FillTheComputeQueueWithWorkAndStalls) {
  const ProgramResult result = run({"dry", {}, true}, GetParam());
  double sum = 0;
  double end = 0;
  for (const OpRecord& record : result.records) {
    if (record.unit != OpRecord::Unit::kCompute) continue;
    EXPECT_EQ(record.start - record.stall, end);
    sum += record.stall + record.end - record.start;
    end = record.end;
  }
  EXPECT_DOUBLE_EQ(sum, end);
}

TEST_P(RandomPrograms, ComputeTheSameOnAFreeDevice) {
  EXPECT_NE(run({"free", {}, false, true}, GetParam()).records.size(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPrograms,
                         ::testing::Range(std::uint64_t{1}, std::uint64_t{21}));

TEST(SimCore, TheHostPaysForOpsAndCopiesAndNothingElse) {
  const auto device = test::make_device({"time", {}}, submitting_profile());
  Stream& compute = device->current_stream();
  Stream& other = device->create_stream("other");
  std::byte* host = device->host_memory().pin(64);
  const auto a = device->memory().allocate(64, Purpose::kActivations, compute);
  EXPECT_EQ(device->now(), 0);
  compute.launch(op("op", 1), [](void*) {});
  EXPECT_EQ(device->now(), 0.25);
  other.wait(compute.record(), kTag);
  other.call_back([](const absl::Status&) {});
  OpInfo probe = op("probe", 1);
  probe.probe = true;
  other.launch(probe, [](void*) {});
  EXPECT_EQ(device->now(), 0.25);
  other.copy({"copy", CopyInfo::Direction::kDeviceToHost, a, host, 64});
  EXPECT_EQ(device->now(), 0.5);
  compute.synchronize();
  EXPECT_EQ(device->now(), 0.25 + 1 + 0.5);  // Submitted, worked, launched.
  EXPECT_EQ(device->ended_at(compute.record()), 1.75);
  device->synchronize();
  EXPECT_EQ(device->now(), 1.75 + 0.125 + 64.0 / 1024);
  device->memory().free(a, {});
  device->host_memory().unpin(host, 64);
}

TEST(SimCore, PollingComparesWithTheHostsClock) {
  Profile profile = test::slow_profile();
  profile.host_submit_seconds = 1;
  const auto device = test::make_device({"time", {}}, profile);
  Stream& compute = device->current_stream();
  Stream& other = device->create_stream("other");
  const Event event = compute.launch(op("op", 3), [](void*) {});  // From 1 to 4.
  EXPECT_FALSE(event.done());
  EXPECT_EQ(device->ended_at(event), std::nullopt);
  other.launch(op("op", 0), [](void*) {});
  other.launch(op("op", 0), [](void*) {});
  EXPECT_FALSE(event.done());
  other.launch(op("op", 0), [](void*) {});
  EXPECT_EQ(device->now(), 4);
  EXPECT_TRUE(event.done());
}

TEST(SimCore, CallbacksHaveAClockOfTheirOwn) {
  const auto device = test::make_device({"time", {}}, submitting_profile());
  Stream& compute = device->current_stream();
  double began = 0;
  double went_on = 0;
  compute.launch(op("op", 10), [](void*) {});
  compute.call_back([&](const absl::Status&) {
    began = device->now();
    compute.launch(op("next", 1), [](void*) {});
    went_on = device->now();
  });
  const Event first = compute.record();
  first.wait();
  EXPECT_EQ(began, 10.75);
  EXPECT_EQ(went_on, 11);
  EXPECT_EQ(device->now(), 10.75);
  compute.synchronize();
  EXPECT_EQ(device->now(), 12.5);
}

TEST(SimCore, AStallIsCalledWhatTheHostWaitedFor) {
  const auto device = test::make_device({"time", {}});
  test::Recorder recorder;
  device->set_observer(&recorder);
  Stream& compute = device->current_stream();
  Stream& other = device->create_stream("other");
  std::byte* host = device->host_memory().pin(64);
  const auto a = device->memory().allocate(64, Purpose::kActivations, compute);
  compute.launch(op("first", 1), [](void*) {});
  other.copy({"copy", CopyInfo::Direction::kDeviceToHost, a, host, 64});
  device->set_host_wait({StallCause::kHostFull, "pool"});
  other.record().wait();
  device->set_host_wait({});
  compute.launch(op("second", 1), [](void*) {});
  device->synchronize();
  device->set_observer(nullptr);
  ASSERT_EQ(recorder.records.size(), 3U);
  EXPECT_STREQ(recorder.records[2].name, "second");
  EXPECT_EQ(recorder.records[2].stall, 63);
  EXPECT_EQ(recorder.records[2].cause, StallCause::kHostFull);
  EXPECT_STREQ(recorder.records[2].site, "pool");
  device->memory().free(a, {});
  device->host_memory().unpin(host, 64);
}

TEST(SimCore, MovesCopiesAtTheirVirtualEndSoThatWhatOvertakesThemIsSeen) {
  const auto device = test::make_device({"time", {}});
  Stream& compute = device->current_stream();
  Stream& other = device->create_stream("other");
  std::byte* host = device->host_memory().pin(64);
  const auto a = device->memory().allocate(64, Purpose::kActivations, compute);
  const auto fill = [&](int value) {
    compute.launch(op("fill", 10), [a, value](void*) {
      std::memset(reinterpret_cast<void*>(a), value, 64);
    });
  };
  fill(1);
  other.wait(compute.record(), kTag);
  other.copy({"copy", CopyInfo::Direction::kDeviceToHost, a, host, 64});  // 10 to 74.
  fill(2);  // A race: from 10 to 20.
  device->synchronize();
  EXPECT_EQ(host[0], std::byte{2});
  device->memory().free(a, {});
  device->host_memory().unpin(host, 64);
}

TEST(SimCore, StreamsThatComeAndGoCostNoMemory) {
  const auto device = make_check_device(test::make_device({"dry", {}, true}));
  for (int step = 0; step < 2000; ++step) {
    Stream& stream = device->create_stream("step");
    EXPECT_LE(static_cast<std::uint32_t>(stream.id()), 1U);
    std::uint64_t first = 0;
    Timeline& timeline = device->acquire_timeline(first);
    stream.launch(op("op", 1), [](void*) {});
    stream.signal(timeline, first);
    timeline.at(first).wait();
    device->release_timeline(timeline);
    device->destroy_stream(stream);
  }
}

}  // namespace
}  // namespace ebb::device
