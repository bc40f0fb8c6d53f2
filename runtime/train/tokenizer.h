// Bytes as tokens: a vocabulary of 256, nothing to learn, any file.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ebb::train {

inline constexpr std::int64_t kByteVocabulary = 256;

// One token a byte, 0 to 255.
std::vector<std::int32_t> encode_bytes(absl::string_view text);

// The bytes of `tokens`. Error{kInvalidArgument} for a token that is not a byte.
std::string decode_bytes(std::span<const std::int32_t> tokens);

// For terminals: newlines and printable ASCII as they are, any other byte as "\x1b" and so
// on.
std::string printable(absl::string_view text);

}  // namespace ebb::train
