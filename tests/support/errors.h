// The matchers of errors: EXPECT_THAT(call, fails_with(code, texts...)).

#pragma once

#include <string>

#include <gmock/gmock.h>

#include "absl/status/status.h"

#include "allocator/error.h"

namespace ebb::test {

// A call, given as a closure, that throws Error{code} whose message contains each of the
// texts.
template <typename... Texts>
auto fails_with(absl::StatusCode code, const Texts&... texts) {
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  using ::testing::Property;
  return ::testing::Throws<Error>(AllOf(
      Property(&Error::code, code),
      Property(&Error::what, AllOf(HasSubstr(""), HasSubstr(std::string(texts))...))));
}

// The caller broke the contract.
template <typename... Texts>
auto refuses(const Texts&... texts) {
  return fails_with(absl::StatusCode::kInvalidArgument, texts...);
}

}  // namespace ebb::test
