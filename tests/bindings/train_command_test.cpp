#include "bindings/cli/train/train_command.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

#include "bindings/cli/exit_code.h"
#include "tests/support/captured.h"
#include "tests/support/temp_folder.h"

namespace ebb::cli {
namespace {

using ::testing::HasSubstr;

class TrainCommandTest : public ::testing::Test {
 protected:
  std::string report_path() const { return folder_.path("r.json"); }
  nlohmann::json report() const {
    return nlohmann::json::parse(folder_.contents("r.json"));
  }
  int run(const std::vector<std::pair<std::string, std::string>>& more) {
    config::Settings settings;
    const auto set = [&](const std::string& flag, const std::string& value) {
      settings[flag] = {"--" + flag, value};
    };
    for (const auto& [flag, value] :
         {std::pair{"layers", "2"}, std::pair{"heads", "2"}, std::pair{"hidden", "32"},
          std::pair{"batch", "1"}, std::pair{"seq", "16"}, std::pair{"steps", "2"},
          std::pair{"threads", "1"}}) {
      set(flag, value);
    }
    set("report", report_path());
    for (const auto& [flag, value] : more) set(flag, value);
    return train(settings, {.out = out_.file(), .err = err_.file()});
  }

  const test::TempFolder folder_;
  test::Captured out_;
  test::Captured err_;
};

TEST_F(TrainCommandTest, TrainsReportsAndSummarises) {
  EXPECT_EQ(run({{"checkpoint", "every:1"}, {"offload", "inputs"}, {"check", "true"}}),
            kSuccess);
  EXPECT_EQ(report()["loss"].size(), 2U);
  EXPECT_EQ(report()["order"]["violations"], 0);
  EXPECT_THAT(out_.text(), HasSubstr("device memory"));
  EXPECT_THAT(out_.text(), HasSubstr("validation loss"));
  EXPECT_THAT(err_.text(), HasSubstr("step 2/2"));
}

TEST_F(TrainCommandTest, PrintsTheReportInsteadWhereJsonIsAskedFor) {
  EXPECT_EQ(run({{"json", "true"}, {"dry", "true"}}), kSuccess);
  EXPECT_EQ(nlohmann::json::parse(out_.text()), report());
  EXPECT_EQ(err_.text(), "");
}

TEST_F(TrainCommandTest, ReportsARefusalAndDoesNotBegin) {
  EXPECT_EQ(run({{"device-budget", "1KiB"}}), kFailed);
  EXPECT_EQ(report()["error"]["code"], "RESOURCE_EXHAUSTED");
  EXPECT_GT(report()["error"]["smallest_device_budget_bytes"], 1024);
  EXPECT_THAT(err_.text(), HasSubstr(report()["error"]["message"].get<std::string>()));
  EXPECT_EQ(err_.text().find("step 1"), std::string::npos);
  EXPECT_EQ(out_.text(), "");
}

TEST_F(TrainCommandTest, RefusesAHostBudgetThatTheMachineDoesNotHave) {
  EXPECT_EQ(run({{"host-budget", "900TiB"}}), kFailed);
  EXPECT_THAT(report()["error"]["message"].get<std::string>(), HasSubstr("RAM"));
  EXPECT_EQ(run({{"host-budget", "900TiB"}, {"dry", "true"}}), kSuccess);
}

TEST_F(TrainCommandTest, WritesNoReportOfAWrongRequest) {
  EXPECT_EQ(run({{"offload", "inputs"}}), kWrongRequest);
  EXPECT_EQ(run({{"data", "/no/such/text"}}), kWrongRequest);
  EXPECT_EQ(run({{"report", "/no/such/folder/r.json"}}), kWrongRequest);
  EXPECT_EQ(folder_.files(), 0U);
  EXPECT_EQ(out_.text(), "");
}

TEST_F(TrainCommandTest, WarnsOfWhatIsUnusualAndOfWhatDidNotHappen) {
  EXPECT_EQ(run({{"checkpoint", "every:9"}}), kSuccess);
  EXPECT_THAT(err_.text(),
              HasSubstr("ebb: warning: --checkpoint every:9 makes one segment"));
  EXPECT_EQ(report()["warnings"][0]["code"], "one_segment");

  EXPECT_EQ(run({{"offload", "saved"}, {"min-offload-bytes", "1GiB"}}), kSuccess);
  EXPECT_EQ(report()["warnings"][0]["code"], "nothing_offloaded");
  EXPECT_THAT(err_.text(), HasSubstr("ebb: warning: nothing was offloaded"));
  EXPECT_THAT(out_.text(), HasSubstr("WARNING: nothing was offloaded"));
}

TEST_F(TrainCommandTest, NamesTheSmallestHostBudgetThatWouldDo) {
  EXPECT_EQ(run({{"offload", "saved"}, {"host-budget", "1"}}), kFailed);
  EXPECT_EQ(report()["error"]["code"], "RESOURCE_EXHAUSTED");
  EXPECT_THAT(report()["error"]["message"].get<std::string>(), HasSubstr("host memory"));
  const auto smallest = report()["error"]["smallest_host_budget_bytes"].get<std::size_t>();
  EXPECT_GT(smallest, 1U);
  EXPECT_EQ(run({{"offload", "saved"}, {"host-budget", std::to_string(smallest)}}),
            kSuccess);
}

}  // namespace
}  // namespace ebb::cli
