#include "bindings/cli/train/failure.h"

#include <cstddef>
#include <new>

namespace ebb::cli {

std::string sentence(const Error& error) {
  const std::string message = error.what();
  const std::size_t place = message.rfind(" [");
  const bool ours = error.code() == absl::StatusCode::kInternal;
  return ours || place == std::string::npos || message.back() != ']'
             ? message
             : message.substr(0, place);
}

Refusal failure(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    return {
        .code = known->code(), .message = sentence(*known), .resource = known->resource()};
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return {.code = absl::StatusCode::kResourceExhausted,
            .message =
                "this machine gave the process no more host memory, apart from what "
                "is offloaded: end what else uses it, or take a smaller --batch, "
                "--seq or model",
            .resource = Error::Resource::kHostMemory};
  }
  return {.code = absl::StatusCode::kInternal, .message = error.what()};
}

}  // namespace ebb::cli
