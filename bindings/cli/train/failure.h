// What ended a run, as its user and its report are told.

#pragma once

#include <exception>
#include <string>

#include "allocator/error.h"
#include "bindings/cli/train/refusal.h"

namespace ebb::cli {

// The message without its place in our source, which helps nobody but us: that stays with
// kInternal.
std::string sentence(const Error& error);

// The code and the message of an exception. Memory that the process itself did not get is
// host memory too, though no budget's: kResourceExhausted.
Refusal failure(const std::exception& error);

}  // namespace ebb::cli
