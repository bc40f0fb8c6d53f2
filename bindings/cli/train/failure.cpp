#include "bindings/cli/train/failure.h"

#include <array>
#include <cstddef>
#include <new>
#include <optional>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ebb::cli {
namespace {

// A library has budgets and options, a program flags that set them.
std::string with_flags(const std::string& message, const std::string& host_budget_flag) {
  struct Name {
    std::string option;
    std::string flag;
  };
  const std::array<Name, 2> names{
      {{"host budget", host_budget_flag}, {"device budget", "--device-budget"}}};
  std::string text = message;
  for (const Name& name : names) {
    const std::size_t place = text.find(name.option);
    if (place == std::string::npos || absl::StrContains(text, name.flag)) continue;
    text.insert(place + name.option.size(), absl::StrCat(" (", name.flag, ")"));
  }
  return text;
}

// Whether RLIMIT_AS leaves less than the machine does. What the run had taken is given back
// by now, on both sides: what is left alone tells little.
bool address_space_is_short(const HostLimits& limits) {
  const std::optional<std::size_t> addresses = limits.address_room_bytes();
  const std::optional<std::size_t> memory = limits.room_bytes();
  return addresses && (!memory || *addresses < *memory);
}

Refusal no_addresses() {
  return {.message = absl::StrCat("this process may map no more memory: RLIMIT_AS "
                                  "(ulimit -v) forbids it; to raise it: ",
                                  how_to_map_more()),
          .resource = Error::Resource::kHostMemory};
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

Refusal failure(const std::exception& error, const HostLimits& limits,
                const std::string& host_budget_flag) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    return {.code = known->code(),
            .message = with_flags(sentence(*known), host_budget_flag),
            .resource = known->resource()};
  }
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  const bool no_thread =
      system != nullptr && system->code() == std::errc::resource_unavailable_try_again;
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  // A thread needs addresses for its stack.
  if ((no_thread || no_memory) && address_space_is_short(limits)) return no_addresses();
  if (no_memory) {
    return {.message =
                "this machine gave the process no more host memory, apart from what is "
                "offloaded: end what else uses it, or take a smaller --batch, --seq or "
                "model",
            .resource = Error::Resource::kHostMemory};
  }
  if (no_thread) {
    return {.message =
                "this process may start no more threads: raise the limit of "
                "processes (ulimit -u) or that of the control group (pids.max), or "
                "take fewer --threads"};
  }
  return {.code = absl::StatusCode::kInternal, .message = error.what()};
}

}  // namespace ebb::cli
