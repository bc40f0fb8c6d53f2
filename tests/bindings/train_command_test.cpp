#include "bindings/cli/train/train_command.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

#include "bindings/cli/exit_code.h"

namespace ebb::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// What a stream of a command was given.
class Captured {
 public:
  Captured() : file_(open_memstream(&text_, &size_)) {}
  ~Captured() {
    std::fclose(file_);
    std::free(text_);
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  std::FILE* file() const { return file_; }
  std::string text() const {
    std::fflush(file_);
    return {text_, size_};
  }

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* file_;
};

class TrainCommandTest : public ::testing::Test {
 protected:
  TrainCommandTest() {
    std::string name = (fs::temp_directory_path() / "train_command_test.XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~TrainCommandTest() override { fs::remove_all(folder_); }

  std::string report_path() const { return (folder_ / "r.json").string(); }
  nlohmann::json report() const {
    std::ifstream file(report_path());
    return nlohmann::json::parse(file);
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

  fs::path folder_;
  Captured out_;
  Captured err_;
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
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_EQ(out_.text(), "");
}

TEST_F(TrainCommandTest, SaysWhatIsUnusual) {
  EXPECT_EQ(run({{"checkpoint", "every:9"}}), kSuccess);
  EXPECT_THAT(err_.text(), HasSubstr("one segment of all 2 layers"));
}

}  // namespace
}  // namespace ebb::cli
