// A report in words, for a terminal.

#pragma once

#include <string>

#include "offload/report/report.h"

namespace ebb::offload {

// Lines of at most 100 columns: peak device memory against without, bytes each way, step
// time against without and against the bound, stalls by cause, whether gradients were
// verified, order violations. Says loudly when offloading was asked for and nothing was
// offloaded, or the peak did not move, and why.
std::string summary(const Report& report);

// "1.50 GiB", "12.0 MiB", "300 B"; "1.23 s", "45.6 ms", "7.8 us".
std::string bytes_text(double bytes);
std::string seconds_text(double seconds);

}  // namespace ebb::offload
