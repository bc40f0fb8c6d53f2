#include "runtime/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "allocator/error.h"

namespace ebb::io {
namespace {

std::string reason(int error) { return std::system_category().message(error); }

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(absl::StatusCode::kInvalidArgument,
              absl::StrCat("cannot write ", path, ": ", why));
}

[[noreturn]] void fail(const std::string& path, int error) {
  const auto code = error == ENOSPC || error == EDQUOT || error == EFBIG
                        ? absl::StatusCode::kResourceExhausted
                        : absl::StatusCode::kInternal;
  throw Error(code, absl::StrCat("cannot write ", path, ": ", reason(error)));
}

std::string folder_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// Nobody may write: not even those whom permissions do not stop should replace it.
bool read_only(const struct stat& status) {
  return (status.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) == 0;
}

void check_target(const std::string& path) {
  if (path.empty()) refuse("''", "the path is empty");
  const std::string folder = folder_of(path);
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0)
    refuse(path, absl::StrCat(folder, ": ", reason(errno)));
  if (!S_ISDIR(status.st_mode)) refuse(path, absl::StrCat(folder, " is not a directory"));
  if (read_only(status))
    refuse(path, absl::StrCat("the directory ", folder, " is read-only"));
  if (path.back() == '/') refuse(path, "it names a directory, not a file");
  if (stat(path.c_str(), &status) != 0) return;
  if (S_ISDIR(status.st_mode)) refuse(path, "it is a directory");
  if (!S_ISREG(status.st_mode)) refuse(path, "it is not a regular file");
  if (read_only(status) || access(path.c_str(), W_OK) != 0)
    refuse(path, "the file is read-only");
}

// A new file beside the target, gone again unless it was given its name.
class Beside {
 public:
  explicit Beside(const std::string& path) : path_(path), name_(path + ".XXXXXX") {
    descriptor_ = mkostemp(name_.data(), O_CLOEXEC);
    if (descriptor_ < 0)
      refuse(path, absl::StrCat("no new file beside it: ", reason(errno)));
  }
  ~Beside() {
    if (descriptor_ >= 0) close(descriptor_);
    if (!named_) unlink(name_.c_str());
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

  void write(absl::string_view contents) {
    while (!contents.empty()) {
      const ssize_t written = ::write(descriptor_, contents.data(), contents.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail(path_, errno);
      contents.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  void take_name() {
    // What an ordinary open() would have made it, or what the file there has.
    struct stat old {};
    const mode_t mask = umask(0);
    umask(mask);
    const mode_t mode =
        stat(path_.c_str(), &old) == 0 ? (old.st_mode & 07777U) : (0666U & ~mask);
    if (fchmod(descriptor_, mode) != 0 || fsync(descriptor_) != 0) fail(path_, errno);
    const int failed = close(std::exchange(descriptor_, -1));
    if (failed != 0 || rename(name_.c_str(), path_.c_str()) != 0) fail(path_, errno);
    named_ = true;
    // The new name lasts once the folder is on the disk. Not all file systems can do that.
    const int folder = open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return;
    (void)fsync(folder);
    close(folder);
  }

 private:
  const std::string path_;
  std::string name_;
  int descriptor_ = -1;
  bool named_ = false;
};

}  // namespace

void check_writable(const std::string& path) {
  check_target(path);
  const Beside probe(path);
}

void write_atomically(const std::string& path, absl::string_view contents) {
  check_target(path);
  Beside file(path);
  file.write(contents);
  file.take_name();
}

}  // namespace ebb::io
