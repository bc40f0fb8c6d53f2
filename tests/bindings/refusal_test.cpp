#include "bindings/cli/train/refusal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tiny_request.h"

namespace ebb::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RefusalTest, SaysSizesExactlyWhereTheyReadTheSame) {
  EXPECT_EQ(compared(2048, 1024).needs, "2 KiB");
  EXPECT_EQ(compared(2048, 1024).has, "1 KiB");
  EXPECT_EQ(compared(4096, 4095).needs, "4 KiB (4096 bytes)");
  EXPECT_EQ(compared(4096, 4095).has, "4.00 KiB (4095 bytes)");
  EXPECT_EQ(compared(4096, 4096).needs, "4 KiB");
}

TEST(RefusalTest, NamesTheHostBudgetThatHolds) {
  const auto message = [](const std::vector<std::pair<std::string, std::string>>& flags) {
    return refusal(test::tiny_request(flags), {.device_budget_bytes = 9999,
                                               .smallest_device_budget_bytes = 10000,
                                               .smallest_host_budget_bytes = 5000,
                                               .why_not = {},
                                               .policy = {}});
  };
  EXPECT_EQ(message({{"host-budget", "100"}}).resource, Error::Resource::kHostMemory);
  EXPECT_THAT(message({{"host-budget", "100"}}).message,
              HasSubstr("fit with --host-budget 5000, or with --device-budget 10000"));
  EXPECT_THAT(message({{"node-host-budget", "100"}}).message,
              HasSubstr("fit with --node-host-budget 5000"));
  EXPECT_THAT(message({{"node-host-budget", "100"}, {"host-budget", "99"}}).message,
              HasSubstr("fit with --host-budget 5000"));
}

TEST(RefusalTest, SaysWhichPolicyWouldDo) {
  Shortage shortage{.device_budget_bytes = 4000,
                    .smallest_device_budget_bytes = 8000,
                    .smallest_host_budget_bytes = std::nullopt,
                    .why_not = {},
                    .policy = "--checkpoint sqrt --offload none"};
  EXPECT_THAT(refusal(test::tiny_request({{"device-budget", "4000"}}), shortage).message,
              AllOf(HasSubstr("has 3.91 KiB (its device budget)"),
                    HasSubstr("fit with --checkpoint sqrt --offload none, or with "
                              "--device-budget 8000")));
  shortage.policy.clear();
  EXPECT_THAT(refusal(test::tiny_request(), shortage).message,
              AllOf(HasSubstr("(all that sim:a100-pcie4 has)"), HasSubstr("no policy")));
}

TEST(RefusalTest, BlamesNoBudgetThatWasNotSet) {
  Shortage shortage;
  shortage.why_not = "the reason";
  EXPECT_THAT(refusal(test::tiny_request(), shortage).message,
              AllOf(HasSubstr("the reason"), Not(HasSubstr("host budget"))));
  EXPECT_THAT(refusal(test::tiny_request({{"host-budget", "7"}}), shortage).message,
              HasSubstr("a host budget of 7 B"));
}

}  // namespace
}  // namespace ebb::cli
