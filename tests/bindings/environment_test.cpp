#include "bindings/cli/environment.h"

#include <filesystem>

#include <gtest/gtest.h>

namespace ebb::cli {
namespace {

TEST(EnvironmentTest, KnowsWhatItIsAndWhereItRuns) {
  const Environment environment = read_environment();
  EXPECT_FALSE(environment.version.empty());
  EXPECT_FALSE(environment.commit.empty());
  EXPECT_FALSE(environment.cpu.empty());
  EXPECT_GE(environment.cores, 1);
}

TEST(EnvironmentTest, FindsTheTextThatShips) {
  EXPECT_GT(std::filesystem::file_size(shipped_text()), 1'000'000U);
}

}  // namespace
}  // namespace ebb::cli
