// How messages about a segment name an op.

#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace ebb::autograd {

// "gelu (layer 3)", or "gelu" for an op of no layer (`stage` below 0).
std::string op_text(absl::string_view op, std::int32_t stage);

}  // namespace ebb::autograd
