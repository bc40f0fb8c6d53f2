#include "bindings/cli/train/run_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tiny_request.h"

namespace ebb::cli {
namespace {

const Environment kHere{.version = "1.2.3", .commit = "abc", .cpu = "a cpu", .cores = 2};

TEST(RunReportTest, KnowsTheRequestBeforeTheFirstStep) {
  const config::RunConfig config =
      test::tiny_request({{"device-budget", "1GiB"}, {"accumulate", "3"}});
  const auto json = offload::to_json(begin_report(config, kHere));
  EXPECT_EQ(json["environment"]["version"], "1.2.3");
  EXPECT_EQ(json["environment"]["threads"], 1);
  EXPECT_EQ(json["model"], "gpt2-nano");
  EXPECT_EQ(json["config"]["layers"], 4);
  EXPECT_EQ(json["tokens_per_step"], 2 * 3 * 32);
  EXPECT_EQ(json["device"]["budget_bytes"], 1 << 30);
  EXPECT_EQ(json["clock"], "virtual");
  EXPECT_EQ(json["steps"], 0);
}

TEST(RunReportTest, AddsWhatTheRunDid) {
  const config::RunConfig config = test::tiny_request(
      {{"checkpoint", "every:1"}, {"offload", "inputs"}, {"check", "true"}});
  offload::Report report = begin_report(config, kHere);
  cli::Run run(config,
               {.dry = true,
                .device_limit_bytes = {},
                .host_reserve_bytes = 1 << 20,
                .record = true},
               nullptr);
  std::vector<train::StepResult> steps;
  for (int step = 0; step < 3; ++step) steps.push_back(run.step());
  fill_report(report, run, steps, {.peak_bytes = 77, .step_seconds = 0.5});
  const auto json = offload::to_json(report);
  EXPECT_EQ(json["steps"], 3);
  EXPECT_EQ(json["loss"].size(), 0U);
  EXPECT_TRUE(json["wall_step_seconds"].is_null());
  EXPECT_EQ(json["device"]["peak_without_bytes"], 77);
  EXPECT_EQ(json["time"]["step_seconds_without"], 0.5);
  EXPECT_GT(json["time"]["step_seconds"], 0);
  EXPECT_GT(json["transfers"]["d2h_bytes"], 0);
  EXPECT_TRUE(json["order"]["checked"]);
  EXPECT_FALSE(json["gradients"]["verified"]);
  EXPECT_GT(json["timeline"].size(), 0U);
  EXPECT_EQ(what_went_wrong(run), "");
}

// Whatever the host has room for: what it is short of is computed again, or stays.
TEST(RunReportTest, NoStepIsBelowItsBound) {
  for (const char* const accumulate : {"1", "3", "8"}) {
    for (const char* const checkpoint : {"none", "every:1", "every:2"}) {
      for (const std::size_t host : {20U << 10, 40U << 10, 100U << 10, 1U << 20}) {
        const config::RunConfig config =
            test::tiny_request({{"accumulate", accumulate},
                                {"checkpoint", checkpoint},
                                {"offload", "saved"},
                                {"min-offload-bytes", "0"},
                                {"host-budget", std::to_string(host)}});
        cli::Run run(config,
                     {.dry = true,
                      .device_limit_bytes = {},
                      .host_reserve_bytes = host,
                      .record = true},
                     nullptr);
        for (int step = 0; step < 3; ++step) (void)run.step();
        const offload::TimeFigures time = run.recorder()->figures();
        EXPECT_LE(time.bound.seconds, time.step.step * (1 + 1e-9))
            << accumulate << " micro-steps, " << checkpoint << ", " << host << " bytes";
      }
    }
  }
}

TEST(RunReportTest, MeansLeaveOutTheFirstStep) {
  const config::RunConfig config = test::tiny_request();
  const train::TextData data("text", std::string(4000, 'a'), 32, 256);
  cli::Run run(config, {}, &data);
  std::vector<train::StepResult> steps(3);
  steps[0].wall_seconds = 100;
  steps[1].wall_seconds = 1;
  steps[2].wall_seconds = 2;
  offload::Report report;
  fill_report(report, run, steps, {});
  EXPECT_EQ(report.wall_step_seconds, 1.5);
}

}  // namespace
}  // namespace ebb::cli
