#include "bindings/cli/progress.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebb::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class ProgressTest : public ::testing::Test {
 protected:
  ProgressTest() : file_(open_memstream(&text_, &size_)) {}
  ~ProgressTest() override {
    std::fclose(file_);
    std::free(text_);
  }
  std::string written() {
    std::fflush(file_);
    return {text_, size_};
  }

  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* file_;
};

TEST_F(ProgressTest, WritesPlainLinesWhereThereIsNoTerminal) {
  {
    Progress progress(file_, false, 3);
    for (int step = 1; step <= 3; ++step) progress.update(step, 5.0 - step);
  }
  const std::string text = written();
  EXPECT_THAT(text, HasSubstr("step 1/3  loss 4.0000"));
  EXPECT_THAT(text, HasSubstr("step 3/3  loss 2.0000"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
}

TEST_F(ProgressTest, WritesAboutTwentyLinesOfALongRun) {
  {
    Progress progress(file_, false, 1000);
    for (int step = 1; step <= 1000; ++step) progress.update(step, std::nullopt);
  }
  const std::string text = written();
  const auto lines = std::count(text.begin(), text.end(), '\n');
  EXPECT_GE(lines, 15);
  EXPECT_LE(lines, 25);
  EXPECT_THAT(text, HasSubstr("step 1000/1000"));
}

TEST_F(ProgressTest, RedrawsOneLineOnATerminalAndLeavesItAtTheEnd) {
  {
    Progress progress(file_, true, 4);
    for (int step = 1; step <= 4; ++step) progress.update(step, 1.5);
    EXPECT_THAT(written(), Not(HasSubstr("\n")));
  }
  const std::string text = written();
  EXPECT_THAT(text, HasSubstr("\r[=======                     ] step 1/4  loss 1.5000"));
  EXPECT_THAT(text, HasSubstr("[============================] step 4/4"));
  EXPECT_THAT(text, EndsWith("\n"));
}

TEST_F(ProgressTest, WritesNothingForARunThatNeverBegan) {
  { const Progress progress(file_, true, 5); }
  EXPECT_EQ(written(), "");
}

}  // namespace
}  // namespace ebb::cli
