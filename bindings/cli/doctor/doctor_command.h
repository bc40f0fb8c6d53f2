// `ebb doctor`.

#pragma once

#include <cstdio>

#include "bindings/cli/doctor/machine.h"

namespace ebb::cli {

// Prints what `surroundings` have to `out`, as text or JSON. Returns the exit code, 0: what
// is missing is a finding, not a failure.
int doctor(const Surroundings& surroundings, bool json, std::FILE* out);

}  // namespace ebb::cli
