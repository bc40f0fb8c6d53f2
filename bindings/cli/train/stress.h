// `ebb train --stress`: the soak of the engine, on the user's machine, device and budgets.

#pragma once

#include "bindings/cli/environment.h"
#include "bindings/cli/interrupt.h"
#include "bindings/cli/output.h"
#include "bindings/config/run_config.h"

namespace ebb::cli {

// Runs the soak that `config` asks for (config.stress), prints its figures, and writes them
// to config.report. Returns the exit code (exit_code.h): a gradient that differs, an access
// out of order or memory that is not flat is a failure. Throws what writing the report
// does.
int stress(const config::RunConfig& config, const Environment& environment,
           const Interrupt& interrupt, const Output& output);

}  // namespace ebb::cli
