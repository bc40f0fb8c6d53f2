#include <set>
#include <string>

#include <gtest/gtest.h>

#include "bindings/config/run_config.h"

namespace ebb::config {
namespace {

TEST(TrainFlagsTest, EachIsThereOnceAndSaysWhatItDoes) {
  std::set<std::string> names;
  for (const Flag& flag : train_flags()) {
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
    EXPECT_FALSE(std::string(flag.help).empty()) << flag.name;
  }
}

TEST(TrainFlagsTest, DoesNotNameWhatThisReleaseHasNot) {
  for (const Flag& flag : train_flags()) {
    for (const char* later : {"nvme", "save", "resume", "trace", "html", "plan",
                              "tensor-parallel", "config", "optimizer-offload"}) {
      EXPECT_STRNE(flag.name, later);
    }
  }
}

}  // namespace
}  // namespace ebb::config
