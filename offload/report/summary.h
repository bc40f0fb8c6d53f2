// A report in words, for a terminal.

#pragma once

#include <string>

#include "offload/report/report.h"

namespace ebb::offload {

// Lines of at most 100 columns: peak device memory against without, bytes each way, step
// time against without and against the bound, stalls by cause, whether gradients were
// verified, order violations; and the warnings, each a line of its own length.
std::string summary(const Report& report);

// "1.23 s", "45.6 ms", "7.8 us".
std::string seconds_text(double seconds);

}  // namespace ebb::offload
