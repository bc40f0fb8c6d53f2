// Graphs own their blocks: whatever becomes of a graph, its gradients are those of a run
// without the engine, bit for bit, and when it is gone every byte is back.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/lifetimes_rig.h"
#include "tests/support/lifetimes_scenarios.h"
#include "tests/support/sim_orders.h"

namespace ebb::offload {
namespace {

using namespace test;
using lifetimes::Scenario;
using lifetimes::scenarios;

void expect_the_same_bits(const Scenario& scenario, LifetimesRig& rig) {
  LifetimesRig reference;
  scenario.run(reference);
  scenario.run(rig);
  ASSERT_FALSE(reference.results().empty());
  EXPECT_EQ(rig.results(), reference.results());
  rig.expect_empty();
  EXPECT_GT(rig.engine()->figures().blocks, 0U) << "nothing was moved";
}

using Param = std::tuple<Scenario, device::Order>;
class LifetimesTest : public testing::TestWithParam<Param> {};

TEST_P(LifetimesTest, GiveTheSameBitsAndLeaveNothingBehind) {
  const auto& [scenario, order] = GetParam();
  LifetimesRig rig(order);
  expect_the_same_bits(scenario, rig);
}

INSTANTIATE_TEST_SUITE_P(AllOrders, LifetimesTest,
                         testing::Combine(testing::ValuesIn(scenarios()),
                                          testing::ValuesIn(orders_with(6))),
                         [](const auto& param) {
                           return std::get<0>(param.param).name + "_" +
                                  order_name(std::get<1>(param.param));
                         });

// What a graph that lives on holds of the device between its backwards.
class LifetimesBetweenTest : public testing::TestWithParam<device::Order> {
 protected:
  std::size_t held() {
    rig_.clear_gradients();
    rig_.end_step();
    return rig_.device().memory().figures().lent[Purpose::kActivations];
  }

  LifetimesRig rig_{GetParam()};
};

TEST_P(LifetimesBetweenTest, ARetainedGraphGivesBackWhatItsBackwardFetched) {
  const Tensor loss = rig_.loss({.layers = {0, 1, 2, 3}});
  const std::size_t before = held();
  for (int i = 0; i < 2; ++i) {
    autograd::backward(loss, {.retain_graph = true});
    EXPECT_LE(held(), before);
  }
  EXPECT_GT(rig_.engine()->figures().refetched_bytes, 0U);
}

TEST_P(LifetimesBetweenTest, ABackwardThatFailsGivesBackWhatWasFetchedAhead) {
  const Tensor loss = rig_.loss({.layers = {0, 1, 2, 3}});
  autograd::backward(loss, {.retain_graph = true});
  const std::size_t before = held();
  for (int at = 0; at < 4; ++at) {
    rig_.wire().set(Tripwire::Where::kBackward, at);
    EXPECT_THROW(autograd::backward(loss, {.retain_graph = true}), Thrown);
    EXPECT_LE(held(), before);
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, LifetimesBetweenTest, testing::ValuesIn(orders_with(2)),
                         [](const auto& param) { return order_name(param.param); });

TEST(LifetimesThreadsTest, TwoEnginesInTwoThreadsDoNotMeet) {
  // First, so that oneDNN makes what its threads share before there are any: TSan does not
  // see into it.
  LifetimesRig reference;
  for (const Scenario& scenario : scenarios()) scenario.run(reference);
  LifetimesRig rigs[2] = {LifetimesRig(device::Order{device::Order::Kind::kFuzz, 1}),
                          LifetimesRig(device::Order{device::Order::Kind::kTime, 0})};
  std::latch together(2);
  {
    std::vector<std::jthread> threads;
    for (LifetimesRig& rig : rigs) {
      threads.emplace_back([&] {
        together.arrive_and_wait();
        for (const Scenario& scenario : scenarios()) scenario.run(rig);
      });
    }
  }
  for (LifetimesRig& rig : rigs) {
    EXPECT_EQ(rig.results(), reference.results());
    rig.expect_empty();
  }
}

// Runs `child` in a child process, which then leaves by exit(). How it ended.
int status_of_child(const std::function<void()>& child) {
  std::fflush(nullptr);
  const pid_t process = fork();
  if (process == 0) {
    child();
    std::exit(testing::Test::HasFailure() ? 1 : 7);
  }
  int status = 0;
  EXPECT_EQ(waitpid(process, &status, 0), process);
  return status;
}

class LifetimesForkTest : public testing::TestWithParam<device::Order> {
 protected:
  // A graph is alive, copies are under way, and the child does `in_child`.
  void fork_in_the_middle(
      const std::function<void(std::unique_ptr<LifetimesRig>&)>& in_child) {
    LifetimesRig reference;
    auto rig = std::make_unique<LifetimesRig>(GetParam());
    for (LifetimesRig* one : {&reference, rig.get()})
      one->backward(one->loss(lifetimes::pass(4)));
    Tensor loss = rig->loss(lifetimes::pass(1));
    const std::size_t blocks = rig->engine()->books().blocks;
    EXPECT_GT(blocks, 0U);
    const int status = status_of_child([&] {
      loss = {};
      in_child(rig);
    });
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 7);

    EXPECT_EQ(rig->engine()->books().blocks, blocks);
    rig->backward(std::exchange(loss, {}));
    lifetimes::interleaved(*rig);
    reference.backward(reference.loss(lifetimes::pass(1)));
    lifetimes::interleaved(reference);
    EXPECT_EQ(rig->results(), reference.results());
  }
};

TEST_P(LifetimesForkTest, AChildThatExitsFreesNothingOfItsParents) {
  fork_in_the_middle([](std::unique_ptr<LifetimesRig>& rig) { (void)rig.release(); });
}

TEST_P(LifetimesForkTest, AChildThatRunsDestructorsFreesNothingOfItsParents) {
  fork_in_the_middle([](std::unique_ptr<LifetimesRig>& rig) {
    rig->in_child();
    rig.reset();
  });
}

INSTANTIATE_TEST_SUITE_P(Orders, LifetimesForkTest, testing::ValuesIn(orders_with(2)),
                         [](const auto& order) { return order_name(order.param); });

}  // namespace
}  // namespace ebb::offload
