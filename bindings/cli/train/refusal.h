// Why a run does not fit, and what would make it fit, in words.

#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"

#include "allocator/error.h"
#include "bindings/config/run_config.h"

namespace ebb::cli {

// A run that does not begin, or did not end.
struct Refusal {
  absl::StatusCode code = absl::StatusCode::kResourceExhausted;
  std::string message;  // One sentence: what it needs, what there is, what would fit.
  Error::Resource resource = Error::Resource::kOther;  // That is not enough.
  std::optional<std::size_t> smallest_device_budget_bytes = std::nullopt;
  std::optional<std::size_t> smallest_host_budget_bytes = std::nullopt;
};

// Two sizes that are not the same, for one sentence: readable, and exact as well where both
// would read the same.
struct Compared {
  std::string needs;
  std::string has;
};
Compared compared(std::size_t needs, std::size_t has);

// What dry runs found out about a run that does not fit.
struct Shortage {
  std::optional<std::size_t> device_budget_bytes;  // That it has; none: no limit.
  // With which it would fit, the other as it was.
  std::optional<std::size_t> smallest_device_budget_bytes;
  std::optional<std::size_t> smallest_host_budget_bytes;
  std::string why_not;  // What the first run that did not fit said.
  std::string policy;   // Flags with which it would fit; empty: none would do.
};

// The sentence, and the resource that is short: the device's, unless more host memory is
// known to help; kOther where more of one of the two alone is not.
Refusal refusal(const config::RunConfig& config, const Shortage& shortage);

}  // namespace ebb::cli
