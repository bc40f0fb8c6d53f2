// `ebb train`.

#pragma once

#include "bindings/cli/output.h"
#include "bindings/config/settings.h"

namespace ebb::cli {

// Trains as `flags` and the environment ask, and returns the exit code (exit_code.h). A
// wrong request, a refusal and a failure are one sentence on `output.err`; the last two are
// in the report as well, if one was asked for. Throws nothing of its own.
int train(const config::Settings& flags, const Output& output);

}  // namespace ebb::cli
