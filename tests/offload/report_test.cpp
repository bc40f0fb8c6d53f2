#include "offload/report/report.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace ebb::offload {
namespace {

std::vector<std::string> keys(const nlohmann::ordered_json& json) {
  std::vector<std::string> result;
  for (const auto& [key, value] : json.items()) result.push_back(key);
  return result;
}

using Keys = std::vector<std::string>;

Report finished() {
  Report report;
  report.time.steps = 3;
  return report;
}

TEST(ReportTest, HasTheKeysThatToolsRelyOn) {
  const auto json = to_json(finished());
  EXPECT_EQ(keys(json), (Keys{"version",
                              "config",
                              "environment",
                              "model",
                              "world_size",
                              "rank",
                              "steps",
                              "tokens_per_step",
                              "loss",
                              "clock",
                              "wall_step_seconds",
                              "device",
                              "activations",
                              "host",
                              "nvme",
                              "transfers",
                              "time",
                              "prefetch",
                              "gradients",
                              "order",
                              "plan",
                              "stages",
                              "timeline",
                              "warnings"}));
  EXPECT_EQ(keys(json["environment"]), (Keys{"version", "commit", "cpu", "threads"}));
  EXPECT_EQ(keys(json["device"]),
            (Keys{"name", "budget_bytes", "peak_bytes", "peak_activation_bytes",
                  "peak_without_bytes", "by_purpose"}));
  EXPECT_EQ(keys(json["device"]["by_purpose"]),
            (Keys{"parameters", "gradients", "optimizer", "activations", "workspace"}));
  EXPECT_EQ(keys(json["activations"]),
            (Keys{"saved_bytes", "kept_bytes", "offloaded_bytes", "recomputed_bytes",
                  "compressed_bytes", "shared_bytes", "kept"}));
  EXPECT_EQ(keys(json["activations"]["kept"]),
            (Keys{"policy", "elsewhere", "small", "in_use", "no_room"}));
  EXPECT_EQ(keys(json["host"]["no_room"]),
            (Keys{"waits", "kept_bytes", "recomputed_bytes"}));
  EXPECT_EQ(keys(json["host"]),
            (Keys{"budget_bytes", "pinned_bytes", "peak_requested_bytes",
                  "pin_calls_in_steps", "by_purpose", "no_room"}));
  EXPECT_EQ(keys(json["nvme"]), (Keys{"written_bytes", "read_bytes"}));
  EXPECT_EQ(
      keys(json["transfers"]),
      (Keys{"d2h_bytes", "h2d_bytes", "revived_bytes", "dropped_bytes", "refetched_bytes",
            "d2h_bytes_per_second", "h2d_bytes_per_second", "d2h_plan", "h2d_plan"}));
  EXPECT_EQ(keys(json["time"]),
            (Keys{"step_seconds", "step_seconds_without", "compute_seconds",
                  "recompute_seconds", "bound", "stall_seconds"}));
  EXPECT_EQ(keys(json["time"]["bound"]),
            (Keys{"seconds", "f", "r", "b", "o", "D", "H", "W", "d2h", "h2d", "duplex"}));
  EXPECT_EQ(keys(json["time"]["stall_seconds"]),
            (Keys{"d2h_backlog", "h2d_late", "host_full", "pin", "comm", "host"}));
  EXPECT_EQ(keys(json["prefetch"]), (Keys{"hits", "late", "missed"}));
  EXPECT_EQ(keys(json["gradients"]),
            (Keys{"checksum", "verified", "bit_equal", "max_abs_difference"}));
  EXPECT_EQ(keys(json["order"]), (Keys{"checked", "accesses", "violations"}));
}

TEST(ReportTest, WritesLossesWithNineDigitsAndNoNumberAsNull) {
  Report report;
  report.loss = {5.12345678912345, std::nan(""), std::numeric_limits<double>::infinity(),
                 2};
  EXPECT_EQ(to_json(report)["loss"].dump(), "[5.12345679,null,null,2.0]");
}

TEST(ReportTest, AWallClockKnowsNoBoundAndNoStalls) {
  Report report = finished();
  report.virtual_clock = false;
  const auto json = to_json(report);
  EXPECT_EQ(json["clock"], "wall");
  EXPECT_TRUE(json["time"]["bound"].is_null());
  EXPECT_TRUE(json["time"]["stall_seconds"].is_null());
  EXPECT_FALSE(json["time"]["step_seconds"].is_null());
}

TEST(ReportTest, WhatWasSavedIsTheSumOfWhatBecameOfIt) {
  Report report;
  report.engine.kept_bytes = 1;
  report.engine.offloaded_bytes = 20;
  report.engine.recomputed_bytes = 300;
  report.engine.shared_bytes = 4000;
  EXPECT_EQ(to_json(report)["activations"]["saved_bytes"], 4321);
}

TEST(ReportTest, ChecksumsAreHexStrings) {
  Report report;
  report.gradients.checksum = {0xABCDEF, ~0ULL};
  EXPECT_EQ(to_json(report)["gradients"]["checksum"].dump(),
            R"(["0000000000abcdef","ffffffffffffffff"])");
}

TEST(ReportTest, ADryReportHasNoLossesNoChecksumsAndNoWallTime) {
  const auto json = to_json(finished());
  EXPECT_EQ(json["loss"].dump(), "[]");
  EXPECT_EQ(json["gradients"]["checksum"].dump(), "[]");
  EXPECT_TRUE(json["wall_step_seconds"].is_null());
}

TEST(ReportTest, ARefusedRunSaysWhyAndWhatWouldFit) {
  Report report;
  report.error = RefusedRun{"RESOURCE_EXHAUSTED", "does not fit", 1234};
  const auto json = to_json(report);
  EXPECT_EQ(keys(json["error"]), (Keys{"code", "message", "smallest_device_budget_bytes",
                                       "smallest_host_budget_bytes", "resource"}));
  EXPECT_EQ(json["error"]["smallest_device_budget_bytes"], 1234);
  EXPECT_TRUE(json["time"]["bound"].is_null());
  EXPECT_TRUE(json["error"]["resource"].is_null());
  report.error->resource = Error::Resource::kHostMemory;
  EXPECT_EQ(to_json(report)["error"]["resource"], "host_memory");
  report.error->resource = Error::Resource::kDeviceMemory;
  EXPECT_EQ(to_json(report)["error"]["resource"], "device_memory");
  report.error->smallest_device_budget_bytes.reset();
  EXPECT_TRUE(to_json(report)["error"]["smallest_device_budget_bytes"].is_null());
  EXPECT_FALSE(to_json(Report{}).contains("error"));
}

TEST(ReportTest, ListsWarningsWithTheirCodes) {
  Report report;
  EXPECT_TRUE(to_json(report)["warnings"].is_array());
  report.warnings = {{"a_code", "why"}};
  EXPECT_EQ(to_json(report)["warnings"][0]["code"], "a_code");
  EXPECT_EQ(to_json(report)["warnings"][0]["message"], "why");
}

TEST(ReportTest, RatesAreBytesOverTheTimeThatTheLinkWasBusy) {
  Report report;
  EXPECT_TRUE(to_json(report)["transfers"]["d2h_bytes_per_second"].is_null());
  report.d2h = {100, 4};
  EXPECT_EQ(to_json(report)["transfers"]["d2h_bytes_per_second"], 25.0);
}

TEST(ReportTest, WritesAChecksumAsSixteenDigits) {
  EXPECT_EQ(checksum_text(0), "0000000000000000");
  EXPECT_EQ(checksum_text(0x1234abcd), "000000001234abcd");
}

TEST(ReportTest, TheTextIsTheJsonWithALineBreak) {
  const std::string text = to_text(finished());
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(nlohmann::ordered_json::parse(text), to_json(finished()));
}

}  // namespace
}  // namespace ebb::offload
