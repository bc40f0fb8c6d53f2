#include "bindings/config/sizes.h"

#include <array>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "allocator/error.h"

namespace ebb::config {
namespace {

struct Unit {
  absl::string_view name;
  double base = 1;
  int power = 0;
};
constexpr std::array<Unit, 10> kUnits{{{"", 1, 0},
                                       {"b", 1, 0},
                                       {"kib", 1024, 1},
                                       {"mib", 1024, 2},
                                       {"gib", 1024, 3},
                                       {"tib", 1024, 4},
                                       {"kb", 1000, 1},
                                       {"mb", 1000, 2},
                                       {"gb", 1000, 3},
                                       {"tb", 1000, 4}}};
constexpr double kMost = 1152921504606846976.0;  // 1 EiB.

[[noreturn]] void refuse(const std::string& what, absl::string_view text,
                         absl::string_view why) {
  throw Error(absl::StatusCode::kInvalidArgument,
              absl::StrCat(what, ": '", text, "' ", why,
                           "; sizes are written as 24GiB, 512MiB or a number of bytes"));
}

}  // namespace

std::size_t parse_size(const std::string& what, absl::string_view text) {
  const std::string lower = absl::AsciiStrToLower(absl::StripAsciiWhitespace(text));
  const std::size_t end = lower.find_first_not_of("0123456789.");
  const std::string number = lower.substr(0, end);
  const std::string unit(
      absl::StripAsciiWhitespace(end == std::string::npos ? "" : lower.substr(end)));
  if (absl::StartsWith(lower, "-")) refuse(what, text, "is negative");
  double value = 0;
  if (number.empty() || number == "." || !absl::SimpleAtod(number, &value)) {
    refuse(what, text, "is not a size");
  }
  for (const Unit& known : kUnits) {
    if (unit != known.name) continue;
    const double factor = std::pow(known.base, known.power);
    if (known.power == 0 && absl::StrContains(number, ".")) {
      refuse(what, text, "is not a whole number of bytes");
    }
    const double bytes = std::floor(value * factor);
    if (!(bytes <= kMost)) refuse(what, text, "is more than 1 EiB");
    if (bytes < 1) refuse(what, text, "is nothing: it must be more than 0");
    std::size_t exact = 0;  // A double has 53 bits only.
    return known.power == 0 && absl::SimpleAtoi(number, &exact)
               ? exact
               : static_cast<std::size_t>(bytes);
  }
  refuse(what, text, absl::StrCat("has the unknown unit '", unit, "'"));
}

}  // namespace ebb::config
