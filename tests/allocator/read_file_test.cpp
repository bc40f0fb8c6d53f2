#include "allocator/read_file.h"

#include <sys/stat.h>

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/temp_folder.h"

namespace ebb {
namespace {

using test::refuses;

constexpr std::size_t kLimit = std::size_t{4} << 20;

class ReadFileTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }

  const test::TempFolder folder_;
};

TEST_F(ReadFileTest, ReadsEveryByteOfAFileOfSeveralPieces) {
  std::string text(std::size_t{2} << 20, 'x');
  text += std::string("end\0of file\n", 12);
  folder_.write("text", text);
  EXPECT_EQ(read_file(path("text"), kLimit), text);
  folder_.write("empty", "");
  EXPECT_EQ(read_file(path("empty"), kLimit), "");
}

TEST_F(ReadFileTest, NamesThePathAndTheReasonWhereItCannotRead) {
  EXPECT_THAT([&] { read_file(path("none"), kLimit); },
              refuses(path("none"), "No such file or directory"));
  EXPECT_THAT([&] { read_file(folder_.path().string(), kLimit); },
              refuses(folder_.path().string(), "directory"));
  EXPECT_THAT([] { read_file("", kLimit); }, refuses("No such file"));
}

TEST_F(ReadFileTest, DoesNotWaitForAPipeThatNobodyWrites) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT([&] { read_file(path("pipe"), kLimit); }, refuses(path("pipe"), "regular"));
}

TEST_F(ReadFileTest, StopsAtItsLimit) {
  folder_.write("text", std::string(100, 'x'));
  EXPECT_EQ(read_file(path("text"), 100).size(), 100U);
  EXPECT_THAT([&] { read_file(path("text"), 99); },
              refuses(path("text"), "more than 99 bytes"));
}

}  // namespace
}  // namespace ebb
