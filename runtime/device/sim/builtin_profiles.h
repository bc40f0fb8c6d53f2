// The profiles that ship, as text. The source is made from profiles/*.json by CMake.

#pragma once

#include <span>

#include "absl/strings/string_view.h"

namespace ebb::device {

struct BuiltinProfile {
  absl::string_view name;
  absl::string_view json;
};

std::span<const BuiltinProfile> builtin_profiles();

}  // namespace ebb::device
