#include "runtime/train/tokenizer.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

#include "allocator/error.h"

namespace ebb::train {

std::vector<std::int32_t> encode_bytes(absl::string_view text) {
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size());
  for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

std::string decode_bytes(std::span<const std::int32_t> tokens) {
  std::string text;
  text.reserve(tokens.size());
  for (const std::int32_t token : tokens) {
    EBB_CHECK(token >= 0 && token < kByteVocabulary, kInvalidArgument, "token ", token,
              " is not a byte");
    text.push_back(static_cast<char>(token));
  }
  return text;
}

std::string printable(absl::string_view text) {
  std::string result;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '\n' || absl::ascii_isprint(byte)) {
      result.push_back(letter);
    } else {
      absl::StrAppendFormat(&result, "\\x%02x", static_cast<unsigned>(byte));
    }
  }
  return result;
}

}  // namespace ebb::train
