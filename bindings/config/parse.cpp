#include "bindings/config/parse.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"

#include "allocator/error.h"

namespace ebb::config {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(absl::StatusCode::kInvalidArgument, message);
}

}  // namespace

std::int64_t parse_integer(const std::string& what, absl::string_view text,
                           std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < least || value > most) {
    refuse(absl::StrCat(what, ": '", text, "' is not a whole number from ", least, " to ",
                        most));
  }
  return value;
}

std::uint64_t parse_seed(const std::string& what, absl::string_view text) {
  std::uint64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) {
    refuse(absl::StrCat(what, ": '", text, "' is not a whole number from 0 to 2^64 - 1"));
  }
  return value;
}

double parse_real(const std::string& what, absl::string_view text, double least,
                  bool including_least, double most) {
  double value = 0;
  const bool number = absl::SimpleAtod(text, &value) && std::isfinite(value);
  if (!number || value < least || value > most || (!including_least && value == least)) {
    refuse(absl::StrCat(what, ": '", text, "' is not a number ",
                        including_least ? "from " : "above ", least,
                        including_least ? " to " : " and at most ", most));
  }
  return value;
}

void refuse_choice(const std::string& what, absl::string_view text,
                   const std::vector<std::string>& choices) {
  refuse(absl::StrCat(what, ": '", text,
                      "' is unknown; this release has: ", absl::StrJoin(choices, ", ")));
}

}  // namespace ebb::config
