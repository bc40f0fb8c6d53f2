// A folder of a test's own, gone with it.

#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include <gtest/gtest.h>

namespace ebb::test {

class TempFolder {
 public:
  TempFolder() {
    std::string name =
        (std::filesystem::temp_directory_path() / "ebbtide_test.XXXXXX").string();
    const char* made = mkdtemp(name.data());
    if (made != nullptr) path_ = made;
    EXPECT_NE(made, nullptr) << "no temporary folder";
  }
  ~TempFolder() {
    if (path_.empty()) return;
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
    EXPECT_FALSE(std::filesystem::exists(path_)) << path_;
  }

  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string path(const std::string& name) const { return (path_ / name).string(); }

  // How many files and folders lie in it.
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(
        std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator()));
  }
  std::string contents(const std::string& name) const {
    std::ifstream file(path_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << text;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace ebb::test
