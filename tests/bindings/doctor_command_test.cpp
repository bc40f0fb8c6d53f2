#include "bindings/cli/doctor/doctor_command.h"

#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebb::cli {
namespace {

using ::testing::HasSubstr;

std::string printed(bool json) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const file = open_memstream(&text, &size);
  EXPECT_EQ(doctor(this_machine(), json, file), 0);
  std::fclose(file);
  std::string result(text, size);
  std::free(text);
  return result;
}

TEST(DoctorCommandTest, PrintsALineForEachThing) {
  for (const char* word :
       {"cores", "RAM", "cgroup", "memlock", "NUMA", "GPUs", "MPI", "NVMe"}) {
    EXPECT_THAT(printed(false), HasSubstr(word));
  }
}

TEST(DoctorCommandTest, PrintsJsonForMachines) {
  const auto json = nlohmann::json::parse(printed(true));
  EXPECT_EQ(json["findings"].size(), 8U);
  EXPECT_GE(json["findings"][0]["cores"], 1);
}

}  // namespace
}  // namespace ebb::cli
