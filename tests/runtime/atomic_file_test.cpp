#include "runtime/io/atomic_file.h"

#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/temp_folder.h"

namespace ebb::io {
namespace {

using test::fails_with;
using test::refuses;

namespace fs = std::filesystem;

class AtomicFileTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }
  std::string contents(const std::string& name) const { return folder_.contents(name); }
  std::size_t files() const { return folder_.files(); }

  const test::TempFolder folder_;
};

TEST_F(AtomicFileTest, WritesANewFileAndLeavesNothingElse) {
  write_atomically(path("report.json"), absl::string_view("one\0two", 7));
  EXPECT_EQ(contents("report.json"), std::string("one\0two", 7));
  EXPECT_EQ(files(), 1U);
}

TEST_F(AtomicFileTest, ReplacesAFileAndKeepsItsPermissions) {
  write_atomically(path("a"), std::string(3 << 20, 'x'));
  fs::permissions(path("a"), fs::perms::owner_read | fs::perms::owner_write);
  write_atomically(path("a"), "short");
  EXPECT_EQ(contents("a"), "short");
  EXPECT_EQ(fs::status(path("a")).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(AtomicFileTest, CheckingLeavesTheFolderAsItWas) {
  write_atomically(path("a"), "old");
  check_writable(path("a"));
  check_writable(path("b"));
  EXPECT_EQ(contents("a"), "old");
  EXPECT_EQ(files(), 1U);
}

TEST_F(AtomicFileTest, NamesThePathAndTheReasonWhereItMayNotWrite) {
  fs::create_directory(path("folder"));
  write_atomically(path("file"), "kept");
  for (const auto& [name, reason] :
       {std::pair{"folder", "it is a directory"}, std::pair{"folder/", "names a directory"},
        std::pair{"missing/file", "No such file or directory"},
        std::pair{"file/below", "is not a directory"}}) {
    const std::string place = path(name);  // clang 14 captures no structured binding.
    EXPECT_THAT([&] { check_writable(place); }, refuses(reason));
    EXPECT_THAT([&] { write_atomically(place, "new"); }, refuses(place));
  }
  EXPECT_THAT([&] { check_writable(""); }, refuses("empty"));
  EXPECT_THAT([&] { check_writable("/dev/null"); }, refuses("regular"));
  EXPECT_EQ(contents("file"), "kept");
}

TEST_F(AtomicFileTest, LeavesAReadOnlyFileAlone) {
  write_atomically(path("file"), "kept");
  fs::permissions(path("file"), fs::perms::owner_read);
  EXPECT_THAT([&] { check_writable(path("file")); }, refuses("the file is read-only"));
  EXPECT_THAT([&] { write_atomically(path("file"), "new"); }, refuses("read-only"));
  EXPECT_EQ(contents("file"), "kept");
  EXPECT_EQ(files(), 1U);
}

TEST_F(AtomicFileTest, LeavesAReadOnlyFolderAlone) {
  fs::permissions(folder_.path(), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_THAT([&] { check_writable(path("file")); }, refuses("is read-only"));
  EXPECT_THAT([] { check_writable("/proc/report.json"); }, refuses("/proc/report.json"));
}

TEST_F(AtomicFileTest, LeavesTheOldFileWhereTheDiskIsFull) {
  // A limit on the size of files makes a write fail midway, as a full disk does.
  write_atomically(path("file"), "kept");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THAT([&] { write_atomically(path("file"), std::string(4000, 'x')); },
              fails_with(absl::StatusCode::kResourceExhausted));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(contents("file"), "kept");
  EXPECT_EQ(files(), 1U);
}

}  // namespace
}  // namespace ebb::io
