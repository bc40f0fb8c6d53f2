#include "bindings/cli/train/failure.h"

#include <new>
#include <stdexcept>
#include <system_error>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebb::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::system_error kNoThread(
    std::make_error_code(std::errc::resource_unavailable_try_again));

Refusal told(const std::exception& error, const HostLimits& limits = {}) {
  return failure(error, limits, "--host-budget");
}

TEST(FailureTest, LeavesOutWhereInTheSourceAnErrorWasRaisedUnlessItIsAFaultOfOurs) {
  const Refusal theirs =
      told(Error(absl::StatusCode::kResourceExhausted, "no room [a/b.cpp:7]"));
  EXPECT_EQ(theirs.code, absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(theirs.message, "no room");
  EXPECT_EQ(theirs.resource, Error::Resource::kOther);
  EXPECT_EQ(told(Error(absl::StatusCode::kResourceExhausted, "no room",
                       Error::Resource::kDeviceMemory))
                .resource,
            Error::Resource::kDeviceMemory);
  const Refusal ours = told(Error(absl::StatusCode::kInternal, "odd [a/b.cpp:7]"));
  EXPECT_EQ(ours.message, "odd [a/b.cpp:7]");
  EXPECT_EQ(sentence(Error(absl::StatusCode::kInvalidArgument, "a [b] c")), "a [b] c");
}

TEST(FailureTest, NamesTheFlagOfABudgetThatTheLibraryNames) {
  const auto message = [](const char* text, const char* host_budget_flag) {
    return failure(Error(absl::StatusCode::kResourceExhausted, text), HostLimits(),
                   host_budget_flag)
        .message;
  };
  EXPECT_EQ(message("a larger host budget would do", "--host-budget"),
            "a larger host budget (--host-budget) would do");
  EXPECT_EQ(message("raise the host budget or the device budget.", "--node-host-budget"),
            "raise the host budget (--node-host-budget) or the device budget "
            "(--device-budget).");
  EXPECT_EQ(message("a larger device budget, or --device-budget 7", "--host-budget"),
            "a larger device budget, or --device-budget 7");
}

TEST(FailureTest, MemoryThatTheProcessDidNotGetIsTheHosts) {
  const Refusal refusal = told(std::bad_alloc());
  EXPECT_EQ(refusal.code, absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refusal.message, HasSubstr("no more host memory"));
  EXPECT_EQ(refusal.resource, Error::Resource::kHostMemory);
}

TEST(FailureTest, BlamesTheLimitOfTheAddressSpaceWhereItLeavesLessThanTheMachine) {
  HostLimits limits;
  limits.available_bytes = 1000;
  limits.address_space_bytes = 1500;
  limits.mapped_bytes = 500;  // As much as the machine leaves.
  EXPECT_THAT(told(std::bad_alloc(), limits).message, Not(HasSubstr("RLIMIT_AS")));
  limits.mapped_bytes = 501;
  const Refusal refusal = told(std::bad_alloc(), limits);
  EXPECT_EQ(refusal.code, absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refusal.message, HasSubstr("RLIMIT_AS"));
  EXPECT_EQ(refusal.resource, Error::Resource::kHostMemory);
  EXPECT_THAT(told(kNoThread, limits).message, HasSubstr("RLIMIT_AS"));
}

TEST(FailureTest, AThreadThatTheProcessDidNotGetIsNoMemory) {
  const Refusal refusal = told(kNoThread);
  EXPECT_EQ(refusal.code, absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refusal.message, HasSubstr("pids.max"));
  EXPECT_EQ(refusal.resource, Error::Resource::kOther);
}

TEST(FailureTest, AnythingElseIsAFaultOfOurs) {
  const Refusal refusal = told(std::runtime_error("odd"));
  EXPECT_EQ(refusal.code, absl::StatusCode::kInternal);
  EXPECT_EQ(refusal.message, "odd");
}

}  // namespace
}  // namespace ebb::cli
