// The soak passes on a sound engine, in every order, and fails on one that is not.

#include "bench/soak/soak.h"

#include <cstdlib>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "kernels/cpu/cpu_kernels.h"
#include "tests/support/drop_waits.h"
#include "tests/support/errors.h"
#include "tests/support/sim_devices.h"
#include "tests/support/sim_orders.h"

namespace ebb::bench {
namespace {

using namespace test;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::size_t kMiB = std::size_t{1} << 20;

bool full() {
  const char* matrix = std::getenv("EBB_MATRIX");
  return matrix != nullptr && std::string(matrix) == "full";
}

// Copies take no time to start, so that blocks leave the device, and come back.
device::SimOptions small_sim(const device::Order& order, std::size_t limit_bytes) {
  device::SimOptions options = sim_options(order);
  options.profile.d2h.latency_seconds = options.profile.h2d.latency_seconds = 0;
  options.limit_bytes = limit_bytes;
  return options;
}

// The device under test, and what it is compared with.
struct Devices {
  explicit Devices(const device::Order& order = {}, std::size_t limit_bytes = 16 * kMiB) {
    set_cpu_threads(1);
    device = checked(small_sim(order, limit_bytes));
    reference = device::make_sim_device(sim_options(), cpu_kernels());
  }
  SoakFigures run(SoakOptions options) {
    options.checker = device.get();
    return run_soak(*device, *reference, options);
  }

  std::unique_ptr<device::CheckDevice> device;
  std::unique_ptr<device::Device> reference;
};

struct Case {
  device::Order order;
  std::size_t device_bytes = 16 * kMiB;
  std::size_t host_bytes = 16 * kMiB;
};

std::vector<Case> cases() {
  std::vector<Case> cases;
  for (const device::Order& order : all_orders()) cases.push_back({.order = order});
  cases.push_back(
      {.order = {device::Order::Kind::kFuzz, 5}, .device_bytes = 11 * kMiB / 4});
  cases.push_back({.order = {device::Order::Kind::kFuzz, 6}, .host_bytes = kMiB / 4 + 100});
  return cases;
}

class SoakTest : public testing::TestWithParam<Case> {};

TEST_P(SoakTest, PassesOnASoundEngine) {
  const Case& c = GetParam();
  Devices devices(c.order, c.device_bytes);
  SoakOptions options;
  options.steps = full() ? 2000 : 200;
  options.seed = 1 + c.order.seed;
  options.host_budget_bytes = c.host_bytes;
  const SoakFigures figures = devices.run(options);

  EXPECT_THAT(figures.problems, IsEmpty());
  EXPECT_TRUE(figures.passed());
  EXPECT_EQ(figures.steps, options.steps);
  EXPECT_GT(figures.order.accesses, 0U);
  EXPECT_EQ(figures.order.violations, 0U);
  for (std::size_t i = 0; i < kSoakEvents; ++i) {
    EXPECT_GT(figures.events[i], 0) << name(static_cast<SoakEvent>(i));
  }
  EXPECT_GT(figures.exceptions, options.steps / 20);
  EXPECT_GT(figures.graphs_alive_at_once, 3);
  EXPECT_GT(figures.engine.h2d_bytes, 0U);
  EXPECT_GT(figures.engine.revived_bytes, 0U);
  EXPECT_GT(figures.engine.refetched_bytes, 0U);
  EXPECT_GT(figures.engine.dropped_bytes, 0U);
  EXPECT_EQ(figures.engine.d2h_bytes, figures.engine.h2d_bytes +
                                          figures.engine.revived_bytes +
                                          figures.engine.dropped_bytes);
  EXPECT_GT(figures.virtual_seconds, 0);
  EXPECT_EQ(figures.windows.size(), 10U);
  const bool tight = c.device_bytes < 16 * kMiB;
  EXPECT_EQ(figures.refusals > 0, tight) << figures.refusals;
  EXPECT_EQ(devices.device->memory().figures().lent.total(), 0U);
  EXPECT_EQ(devices.reference->memory().figures().lent.total(), 0U);
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string text = order_name(info.param.order);
  if (info.param.device_bytes < 16 * kMiB) text += "_small_device";
  if (info.param.host_bytes < 16 * kMiB) text += "_small_host";
  return text;
}

INSTANTIATE_TEST_SUITE_P(Orders, SoakTest, testing::ValuesIn(cases()), case_name);

SoakOptions short_soak() {
  SoakOptions options;
  options.steps = 60;
  return options;
}

TEST(SoakFaultsTest, ASoakThatMovedNothingOrFoundNoMemoryHasNotPassed) {
  SoakOptions options = short_soak();
  options.min_offload_bytes = std::size_t{1} << 30;
  EXPECT_FALSE(Devices().run(options).passed());
  options = short_soak();
  EXPECT_FALSE(Devices({}, 9 * kMiB / 4).run(options).passed());
}

TEST(SoakFaultsTest, AnEqualSeedGivesAnEqualSoak) {
  const auto run = [](std::uint64_t seed) {
    Devices devices;
    SoakOptions options = short_soak();
    options.steps = 20;
    options.seed = seed;
    return devices.run(options);
  };
  const SoakFigures one = run(7);
  const SoakFigures again = run(7);
  EXPECT_EQ(one.events, again.events);
  EXPECT_EQ(one.virtual_seconds, again.virtual_seconds);
  EXPECT_EQ(one.last_loss, again.last_loss);
  EXPECT_NE(one.last_loss, run(8).last_loss);
}

TEST(SoakFaultsTest, BytesThatStayOnTheDeviceAreReported) {
  Devices devices;
  Tensor leak;
  SoakOptions options = short_soak();
  options.progress = [&](const SoakFigures& figures) {
    if (figures.steps == 30) leak = Tensor::empty(*devices.device, {1}, DType::kF32);
  };
  const SoakFigures figures = devices.run(options);
  EXPECT_FALSE(figures.passed());
  EXPECT_EQ(figures.steps, 60) << "the soak goes on";
  EXPECT_THAT(figures.problems, Each(HasSubstr("device bytes")));
}

TEST(SoakFaultsTest, MoreMemoryIsNotTheAnswerWhereSomethingElseIsWrong) {
  for (const bool leaks : {false, true}) {
    Devices devices({}, 9 * kMiB / 4);
    Tensor leak;
    SoakOptions options = short_soak();
    options.progress = [&](const SoakFigures& figures) {
      if (leaks && figures.steps == 5) {
        leak = Tensor::empty(*devices.device, {1}, DType::kF32);
      }
    };
    const SoakFigures figures = devices.run(options);
    EXPECT_GT(2 * figures.refusals, figures.steps);
    EXPECT_FALSE(figures.passed());
    EXPECT_EQ(figures.short_of_memory, !leaks);
  }
}

// Wrong in one element of some calls: of one alone, the step may be one that is thrown
// away.
int gelus = 0;

TEST(SoakFaultsTest, AWrongGradientIsReported) {
  Kernels kernels = cpu_kernels();
  kernels.gelu_backward = [](DType dtype, std::int64_t elements, const void* x,
                             const void* dy, void* dx, NativeQueue queue) {
    cpu_kernels().gelu_backward(dtype, elements, x, dy, dx, queue);
    if (++gelus >= 100 && gelus < 110) static_cast<float*>(dx)[0] += 1e-3F;
  };
  gelus = 0;
  Devices devices;
  devices.device =
      device::make_check_device(device::make_sim_device(small_sim({}, 16 * kMiB), kernels));
  const SoakFigures figures = devices.run(short_soak());
  ASSERT_FALSE(figures.passed());
  EXPECT_EQ(figures.steps, 60) << "the soak goes on";
  EXPECT_THAT(figures.problems.front(),
              AllOf(HasSubstr("gradients differ"), HasSubstr("c_fc.weight")));
}

TEST(SoakFaultsTest, AWaitThatIsLeftOutIsReported) {
  set_cpu_threads(1);
  const device::Order order{device::Order::Kind::kFuzz, 3};
  const auto below = device::make_check_device(
      device::make_sim_device(small_sim(order, 16 * kMiB), cpu_kernels()),
      {.throw_on_violation = false});
  const auto reference = device::make_sim_device(sim_options(), cpu_kernels());
  device::DropWaits leaky(*below);
  leaky.drop("engine.use");
  SoakOptions options = short_soak();
  options.checker = below.get();
  const SoakFigures figures = run_soak(leaky, *reference, options);
  EXPECT_THAT(figures.problems, Contains(HasSubstr("gradients differ")));
  EXPECT_THAT(figures.problems, Contains(HasSubstr("accesses without an order")));
  EXPECT_GT(figures.order.violations, 0U);
}

TEST(SoakFaultsTest, AnExceptionThatNobodyExpectedEndsItAndIsReported) {
  Kernels kernels = cpu_kernels();
  kernels.gelu_backward = [](DType, std::int64_t, const void*, const void*, void*,
                             NativeQueue) {
    throw Error(absl::StatusCode::kInternal, "the device is ill");
  };
  Devices devices;
  devices.device =
      device::make_check_device(device::make_sim_device(small_sim({}, 16 * kMiB), kernels));
  const SoakFigures figures = devices.run(short_soak());
  EXPECT_LT(figures.steps, 60);
  EXPECT_THAT(figures.problems.front(), HasSubstr("the device is ill"));
  EXPECT_EQ(devices.device->memory().figures().lent.total(), 0U);
}

TEST(SoakFaultsTest, WhatProgressThrowsEndsIt) {
  Devices devices;
  SoakOptions options = short_soak();
  std::int64_t steps = 0;
  options.progress = [&](const SoakFigures& figures) {
    steps = figures.steps;
    if (steps == 12) throw std::runtime_error("the user has seen enough");
  };
  EXPECT_THROW(devices.run(options), std::runtime_error);
  EXPECT_EQ(steps, 12);
  EXPECT_EQ(devices.device->memory().figures().lent.total(), 0U);
}

TEST(SoakFaultsTest, OptionsThatMakeNoSenseAreRefused) {
  Devices devices;
  const auto with = [&](auto change) {
    return [&devices, change] {
      SoakOptions options;
      change(options);
      (void)devices.run(options);
    };
  };
  EXPECT_THAT(with([](SoakOptions& o) { o.steps = 0; }), refuses("0 steps"));
  EXPECT_THAT(with([](SoakOptions& o) { o.weights[0] = 0; }), refuses("plain step"));
  EXPECT_THAT(with([](SoakOptions& o) { o.weights[3] = -1; }), refuses("weights"));
  EXPECT_THAT([&] { (void)run_soak(*devices.device, *devices.device, {}); },
              refuses("one twice"));
  const auto dry = dry_sim();
  EXPECT_THAT([&] { (void)run_soak(*dry, *devices.reference, {}); }, refuses("dry"));
}

TEST(SoakFaultsTest, EveryEventHasANameOfItsOwn) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < kSoakEvents; ++i) {
    names.insert(name(static_cast<SoakEvent>(i)));
  }
  EXPECT_EQ(names.size(), kSoakEvents);
  EXPECT_FALSE(names.contains("unknown"));
}

}  // namespace
}  // namespace ebb::bench
