// Numbers from text, with errors that say what would work.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ebb::config {

// Throws Error{kInvalidArgument}, naming the flag `what`, unless `text` is a whole number
// from `least` to `most`.
std::int64_t parse_integer(const std::string& what, absl::string_view text,
                           std::int64_t least, std::int64_t most);

// The same for a seed: 0 to 2^64 - 1.
std::uint64_t parse_seed(const std::string& what, absl::string_view text);

// A finite number from `least` to `most`; `least` itself only if `including_least`.
double parse_real(const std::string& what, absl::string_view text, double least,
                  bool including_least, double most);

// "'x' is unknown for --flag; this release has: a, b, c". Throws Error{kInvalidArgument}.
[[noreturn]] void refuse_choice(const std::string& what, absl::string_view text,
                                const std::vector<std::string>& choices);

}  // namespace ebb::config
