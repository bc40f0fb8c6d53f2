// What ended a run, as its user and its report are told.

#pragma once

#include <exception>
#include <string>

#include "allocator/error.h"
#include "allocator/host_limits.h"
#include "bindings/cli/train/refusal.h"

namespace ebb::cli {

// The message without its place in our source, which helps nobody but us: that stays with
// kInternal.
std::string sentence(const Error& error);

// The code and the message of an exception. Memory that the process itself did not get is
// host memory too, though no budget's: kResourceExhausted, as is a thread that it did not
// get. `limits` as they are now: which of them it was. `host_budget_flag` sets the host
// budget (RunConfig).
Refusal failure(const std::exception& error, const HostLimits& limits,
                const std::string& host_budget_flag);

}  // namespace ebb::cli
