#include "allocator/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "absl/cleanup/cleanup.h"

#include "allocator/error.h"

namespace ebb {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(absl::StatusCode::kInvalidArgument,
              absl::StrCat("cannot read ", path, ": ", why));
}

std::string reason(int error) { return std::system_category().message(error); }

}  // namespace

std::string read_file(const std::string& path, std::size_t limit_bytes) {
  // A pipe that nobody writes to must not hang the caller: hence not blocking.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) refuse(path, reason(errno));
  const absl::Cleanup closing = [descriptor] { close(descriptor); };
  struct stat status {};
  if (fstat(descriptor, &status) != 0) refuse(path, reason(errno));
  if (S_ISDIR(status.st_mode)) refuse(path, "it is a directory, not a file");
  if (!S_ISREG(status.st_mode)) refuse(path, "it is not a regular file");

  std::string contents;
  contents.reserve(std::min(static_cast<std::size_t>(status.st_size), limit_bytes));
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  for (;;) {
    const std::size_t before = contents.size();
    contents.resize(before + kPiece);
    const ssize_t got = read(descriptor, contents.data() + before, kPiece);
    contents.resize(before + static_cast<std::size_t>(got > 0 ? got : 0));
    if (got < 0 && errno == EINTR) continue;
    EBB_CHECK(got >= 0, kInternal, "cannot read ", path, ": ", reason(errno));
    if (got == 0) return contents;
    if (contents.size() > limit_bytes) {
      refuse(path, absl::StrCat("it holds more than ", limit_bytes, " bytes"));
    }
  }
}

}  // namespace ebb
