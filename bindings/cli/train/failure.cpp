#include "bindings/cli/train/failure.h"

#include <array>
#include <cstddef>
#include <new>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "allocator/host_limits.h"

namespace ebb::cli {
namespace {

// A library has budgets and options, a program flags that set them.
std::string with_flags(const std::string& message) {
  struct Name {
    const char* option;
    const char* flag;
  };
  constexpr std::array<Name, 2> kNames{
      {{"host budget", "--host-budget"}, {"device budget", "--device-budget"}}};
  std::string text = message;
  for (const Name& name : kNames) {
    const bool needs = absl::StrContains(text, name.option);
    if (needs && !absl::StrContains(text, name.flag)) {
      absl::StrAppend(&text, " (", name.flag, ")");
    }
  }
  return text;
}

}  // namespace

std::string sentence(const Error& error) {
  const std::string message = error.what();
  const std::size_t place = message.rfind(" [");
  const bool ours = error.code() == absl::StatusCode::kInternal;
  return ours || place == std::string::npos || message.back() != ']'
             ? message
             : message.substr(0, place);
}

Refusal failure(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    return {.code = known->code(),
            .message = with_flags(sentence(*known)),
            .resource = known->resource()};
  }
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  const bool no_thread =  // Its stack found no room, as a rule.
      system != nullptr && system->code() == std::errc::resource_unavailable_try_again;
  if (no_thread || dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    const bool mapped = read_host_limits().address_space_bytes.has_value();
    return {.code = absl::StatusCode::kResourceExhausted,
            .message =
                mapped
                    ? absl::StrCat("this process may map no more memory: RLIMIT_AS "
                                   "(ulimit -v) forbids it; to raise it: ",
                                   how_to_map_more())
                    : "this machine gave the process no more host memory, apart from what "
                      "is offloaded: end what else uses it, or take a smaller --batch, "
                      "--seq or model",
            .resource = Error::Resource::kHostMemory};
  }
  return {.code = absl::StatusCode::kInternal, .message = error.what()};
}

}  // namespace ebb::cli
