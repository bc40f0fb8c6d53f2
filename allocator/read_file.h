// Files read whole.

#pragma once

#include <cstddef>
#include <string>

namespace ebb {

// The bytes of the file at `path`. Throws Error{kInvalidArgument}, naming the path and the
// reason, if there is none, it is a directory, it may not be read, or it holds more than
// `limit_bytes`; Error{kInternal} if reading fails. Thread-safe.
std::string read_file(const std::string& path, std::size_t limit_bytes);

}  // namespace ebb
