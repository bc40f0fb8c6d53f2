#include "bindings/cli/train/stress.h"

#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

#include "bindings/cli/exit_code.h"
#include "tests/support/captured.h"
#include "tests/support/errors.h"
#include "tests/support/temp_folder.h"

namespace ebb::cli {
namespace {

using ::testing::HasSubstr;

const Environment kHere{.version = "1.2.3", .commit = "abc", .cpu = "a cpu", .cores = 2};

class StressTest : public ::testing::Test {
 protected:
  int run(config::Settings settings) {
    settings["stress"] = {"--stress", "true"};
    settings["steps"] = {"--steps", "8"};
    settings["threads"] = {"--threads", "1"};
    settings["report"] = {"--report", folder_.path("r.json")};
    return stress(config::make_run_config(settings, 1), kHere, interrupt_,
                  {.out = out_.file(), .err = err_.file()});
  }
  nlohmann::json report() const {
    return nlohmann::json::parse(folder_.contents("r.json"));
  }

  const Interrupt interrupt_;
  const test::TempFolder folder_;
  test::Captured out_;
  test::Captured err_;
};

TEST_F(StressTest, SoaksTheEngineAndPrintsItsFigures) {
  EXPECT_EQ(run({{"check", {"--check", "true"}}}), kSuccess);
  EXPECT_THAT(out_.text(), HasSubstr("stress, 8 steps: passed"));
  EXPECT_THAT(err_.text(), HasSubstr("step 8/8"));
  const auto json = report();
  EXPECT_EQ(json["config"]["stress"], true);
  EXPECT_EQ(json["config"]["offload"], "saved");
  EXPECT_EQ(json["environment"]["version"], "1.2.3");
  EXPECT_EQ(json["stress"]["steps"], 8);
  EXPECT_GT(json["stress"]["accesses"], 0);
  EXPECT_FALSE(json.contains("error"));
}

TEST_F(StressTest, PrintsTheReportForMachines) {
  EXPECT_EQ(run({{"json", {"--json", "true"}}}), kSuccess);
  EXPECT_EQ(nlohmann::json::parse(out_.text()), report());
}

TEST_F(StressTest, FailsWhereTheDeviceIsTooSmallForItsModel) {
  EXPECT_EQ(run({{"device-budget", {"--device-budget", "4096"}}}), kFailed);
  EXPECT_THAT(report()["error"]["message"].get<std::string>(), HasSubstr("device memory"));
  EXPECT_THAT(err_.text(), HasSubstr("device memory"));
  EXPECT_EQ(report()["stress"]["passed"], false);
  EXPECT_EQ(report()["error"]["resource"], "device_memory");
  const auto smallest =
      report()["error"]["smallest_device_budget_bytes"].get<std::size_t>();
  const std::string budget = std::to_string(smallest);
  EXPECT_THAT(err_.text(), HasSubstr("--device-budget " + budget + " is the smallest"));
  EXPECT_EQ(run({{"device-budget", {"--device-budget", budget}}}), kSuccess);
}

TEST_F(StressTest, NamesTheSmallestHostBudgetToo) {
  EXPECT_EQ(run({{"node-host-budget", {"--node-host-budget", "1"}}}), kFailed);
  EXPECT_EQ(report()["error"]["resource"], "host_memory");
  const auto smallest = report()["error"]["smallest_host_budget_bytes"].get<std::size_t>();
  const std::string budget = std::to_string(smallest);
  EXPECT_THAT(err_.text(), HasSubstr("--node-host-budget " + budget + " is the smallest"));
  EXPECT_EQ(run({{"host-budget", {"--host-budget", budget}}}), kSuccess);
}

TEST_F(StressTest, HasNotPassedWhereItWasInterrupted) {
  kill(getpid(), SIGINT);
  while (!interrupt_.requested()) std::this_thread::yield();
  EXPECT_EQ(run({}), kFailed);
  EXPECT_EQ(report()["error"]["code"], "CANCELLED");
  EXPECT_EQ(report()["stress"]["steps"], 1);
  EXPECT_TRUE(report()["stress"]["passed"].is_null());
}

TEST_F(StressTest, FailsWhereTheMachineDoesNotHaveTheHostBudget) {
  EXPECT_EQ(run({{"host-budget", {"--host-budget", "900TiB"}}}), kFailed);
  EXPECT_EQ(report()["error"]["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(out_.text(), "");
}

}  // namespace
}  // namespace ebb::cli
