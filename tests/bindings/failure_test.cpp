#include "bindings/cli/train/failure.h"

#include <new>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebb::cli {
namespace {

using ::testing::HasSubstr;

TEST(FailureTest, LeavesOutWhereInTheSourceAnErrorWasRaisedUnlessItIsAFaultOfOurs) {
  const Refusal theirs =
      failure(Error(absl::StatusCode::kResourceExhausted, "no room [a/b.cpp:7]"));
  EXPECT_EQ(theirs.code, absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(theirs.message, "no room");
  EXPECT_EQ(theirs.resource, Error::Resource::kOther);
  EXPECT_EQ(failure(Error(absl::StatusCode::kResourceExhausted, "no room",
                          Error::Resource::kDeviceMemory))
                .resource,
            Error::Resource::kDeviceMemory);
  const Refusal ours = failure(Error(absl::StatusCode::kInternal, "odd [a/b.cpp:7]"));
  EXPECT_EQ(ours.message, "odd [a/b.cpp:7]");
  EXPECT_EQ(sentence(Error(absl::StatusCode::kInvalidArgument, "a [b] c")), "a [b] c");
}

TEST(FailureTest, NamesTheFlagOfABudgetThatTheLibraryNames) {
  const auto message = [](const char* text) {
    return failure(Error(absl::StatusCode::kResourceExhausted, text)).message;
  };
  EXPECT_EQ(message("a larger host budget would do"),
            "a larger host budget would do (--host-budget)");
  EXPECT_EQ(message("a larger device budget, or --device-budget 7"),
            "a larger device budget, or --device-budget 7");
}

TEST(FailureTest, MemoryThatTheProcessDidNotGetIsTheHosts) {
  const Refusal refusal = failure(std::bad_alloc());
  EXPECT_EQ(refusal.code, absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refusal.message, HasSubstr("host memory"));
  EXPECT_EQ(refusal.resource, Error::Resource::kHostMemory);
}

TEST(FailureTest, AnythingElseIsAFaultOfOurs) {
  const Refusal refusal = failure(std::runtime_error("odd"));
  EXPECT_EQ(refusal.code, absl::StatusCode::kInternal);
  EXPECT_EQ(refusal.message, "odd");
}

}  // namespace
}  // namespace ebb::cli
