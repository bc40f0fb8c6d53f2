// Sizes in bytes, as people write them.

#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace ebb::config {

// "24GiB", "512MiB", "1.5 TiB", "3GB" or plain bytes, case aside: B, KiB, MiB, GiB, TiB
// (powers of 1024), KB, MB, GB, TB (of 1000). A fraction is rounded down to a byte. Throws
// Error{kInvalidArgument}, which begins with `what` and says what would work, for anything
// else, for 0 and less, and for more than 1 EiB.
std::size_t parse_size(const std::string& what, absl::string_view text);

}  // namespace ebb::config
