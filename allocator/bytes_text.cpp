#include "allocator/bytes_text.h"

#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ebb {

std::string bytes_text(std::size_t bytes) {
  static constexpr std::array<const char*, 6> kNames{"KiB", "MiB", "GiB",
                                                     "TiB", "PiB", "EiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  const int digits = value == std::floor(value) ? 0 : value < 100 ? 2 : 1;
  return absl::StrFormat("%.*f %s", digits, value, kNames[unit]);
}

}  // namespace ebb
