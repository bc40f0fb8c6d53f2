// A step for people to look at: what each unit did when, and what each layer took.

#pragma once

#include "nlohmann/json.hpp"

#include "offload/report/step_record.h"

namespace ebb::offload {

// Stretches of ops of one unit, phase and stage that follow each other, in the order of
// their starts, seconds from the step's beginning: {"unit", "phase", "stage" (null: none),
// "start", "end", "busy" (of which it worked), "ops", "bytes" (of copies)}.
nlohmann::ordered_json timeline(const StepOps& ops);

// For each stage (layer): {"stage", "forward_seconds", "recompute_seconds",
// "backward_seconds", "stall_seconds", "offloaded_bytes" (left in this stage)}.
nlohmann::ordered_json stages(const StepOps& ops, std::span<const SentBlock> blocks);

}  // namespace ebb::offload
