// Files that appear whole or not at all.
//
// The text goes to a new file beside the target, is flushed to the disk, and takes the
// target's name in one step. A reader sees the old file or the new one, and a failure or a
// crash leaves the old one as it was.

#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace ebb::io {

// Throws Error{kInvalidArgument}, naming the path and the reason, unless write_atomically()
// would be allowed to write there now: for asking before long work. The folder must exist;
// a file without write permission counts as one that nobody wants replaced. Thread-safe.
void check_writable(const std::string& path);

// Writes `contents` to `path`, replacing what is there. Throws Error{kInvalidArgument}
// where check_writable() does, Error{kResourceExhausted} for a full disk and
// Error{kInternal} for any other failure; nothing of the new file is left then.
// Thread-safe.
void write_atomically(const std::string& path, absl::string_view contents);

}  // namespace ebb::io
