#include "runtime/io/read_file.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/io/atomic_file.h"

namespace ebb::io {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Property;
using ::testing::Throws;

constexpr std::size_t kLimit = std::size_t{4} << 20;

class ReadFileTest : public ::testing::Test {
 protected:
  ReadFileTest() {
    std::string name = (fs::temp_directory_path() / "read_file_test.XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~ReadFileTest() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static auto refuses(const std::string& path, const std::string& reason) {
    return Throws<Error>(
        AllOf(Property(&Error::code, absl::StatusCode::kInvalidArgument),
              Property(&Error::what, AllOf(HasSubstr(path), HasSubstr(reason)))));
  }

  fs::path folder_;
};

TEST_F(ReadFileTest, ReadsEveryByteOfAFileOfSeveralPieces) {
  std::string text(std::size_t{2} << 20, 'x');
  text += std::string("end\0of file\n", 12);
  write_atomically(path("text"), text);
  EXPECT_EQ(read_file(path("text"), kLimit), text);
  write_atomically(path("empty"), "");
  EXPECT_EQ(read_file(path("empty"), kLimit), "");
}

TEST_F(ReadFileTest, NamesThePathAndTheReasonWhereItCannotRead) {
  EXPECT_THAT([&] { read_file(path("none"), kLimit); },
              refuses(path("none"), "No such file or directory"));
  EXPECT_THAT([&] { read_file(folder_.string(), kLimit); },
              refuses(folder_.string(), "directory"));
  EXPECT_THAT([] { read_file("", kLimit); }, refuses("", "No such file"));
}

TEST_F(ReadFileTest, DoesNotWaitForAPipeThatNobodyWrites) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT([&] { read_file(path("pipe"), kLimit); }, refuses(path("pipe"), "regular"));
}

TEST_F(ReadFileTest, StopsAtItsLimit) {
  write_atomically(path("text"), std::string(100, 'x'));
  EXPECT_EQ(read_file(path("text"), 100).size(), 100U);
  EXPECT_THAT([&] { read_file(path("text"), 99); },
              refuses(path("text"), "more than 99 bytes"));
}

}  // namespace
}  // namespace ebb::io
