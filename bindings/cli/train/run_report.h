// The report of a run: filled in from what ran, or from why nothing did.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bindings/cli/environment.h"
#include "bindings/cli/train/preflight.h"
#include "bindings/cli/train/run.h"
#include "bindings/config/run_config.h"
#include "offload/report/report.h"
#include "runtime/train/trainer.h"

namespace ebb::cli {

// What is known before the first step.
offload::Report begin_report(const config::RunConfig& config,
                             const Environment& environment);

// Adds what `run` did, whose steps gave `steps`. Call it before anything else uses the
// device.
void fill_report(offload::Report& report, Run& run,
                 const std::vector<train::StepResult>& steps, const Without& without);

// Why a run that came to its end is a failure all the same: gradients that differ, accesses
// out of order. Empty: it is none.
std::string what_went_wrong(const Run& run);

}  // namespace ebb::cli
