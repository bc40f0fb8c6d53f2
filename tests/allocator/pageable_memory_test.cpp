#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "allocator/host_memory.h"
#include "tests/support/errors.h"
#include "tests/support/fakes.h"
#include "tests/support/host_memory_contract.h"

namespace ebb {
namespace {

using test::fails_with;
using test::HostMemoryContract;
using test::HostMemoryMaker;
using ::testing::HasSubstr;
using ::testing::Property;
using ::testing::Throws;

constexpr std::size_t kPageBytes = 4096;

const HostMemoryMaker kPageable{"PAGEABLE", [] { return make_pageable_memory(); }};
INSTANTIATE_TEST_SUITE_P(Pageable, HostMemoryContract, ::testing::Values(kPageable));

// The fake keeps the same promises, or tests that use it would prove nothing.
const HostMemoryMaker kFake{
    "FAKE", [] { return std::make_unique<test::FakeHostMemory>(64 * kPageBytes); }};
INSTANTIATE_TEST_SUITE_P(Fake, HostMemoryContract, ::testing::Values(kFake));

TEST(PageableMemory, HasItsPagesBeforeTheyAreTouched) {
  constexpr std::size_t kPages = 25'000;  // Several shares of several threads.
  const auto memory = make_pageable_memory();
  std::byte* data = memory->pin(kPages * kPageBytes);
  std::vector<unsigned char> resident(kPages);
  ASSERT_EQ(mincore(data, kPages * kPageBytes, resident.data()), 0);
  EXPECT_EQ(std::count_if(resident.begin(), resident.end(),
                          [](unsigned char page) { return (page & 1) == 0; }),
            0);
  memory->unpin(data, kPages * kPageBytes);
}

TEST(PageableMemory, IsNotInAChild) {
  const auto memory = make_pageable_memory();
  std::byte* data = memory->pin(kPageBytes);
  const pid_t child = fork();
  if (child == 0) {
    unsigned char resident = 0;
    _exit(mincore(data, kPageBytes, &resident) == -1 && errno == ENOMEM ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  memory->unpin(data, kPageBytes);
}

TEST(PageableMemory, RefusesANodeThatIsNotThere) {
  EXPECT_THAT([] { (void)make_pageable_memory(100'000); },
              fails_with(absl::StatusCode::kUnavailable));
}

// hwloc is told that there are two nodes, and that it may bind to them.
TEST(PageableMemory, BindsToANodeWhereThereIsMoreThanOne) {
  if (std::filesystem::exists("/sys/devices/system/node/node1")) {
    GTEST_SKIP() << "this machine has the node that the test pretends to have";
  }
  setenv("HWLOC_SYNTHETIC", "numa:2 core:1 pu:1", 1);
  setenv("HWLOC_THISSYSTEM", "1", 1);
  const auto first = make_pageable_memory(0);
  const auto second = make_pageable_memory(1);
  EXPECT_THROW((void)make_pageable_memory(2), Error);
  unsetenv("HWLOC_SYNTHETIC");
  unsetenv("HWLOC_THISSYSTEM");
  first->unpin(first->pin(kPageBytes), kPageBytes);
  EXPECT_THAT([&] { (void)second->pin(kPageBytes); },
              Throws<Error>(Property(&Error::what, HasSubstr("NUMA node 1"))));
}

TEST(PageableMemory, RefusesWhatTheMachineHasNoRoomForBeforeTakingIt) {
  const auto root = std::filesystem::path(::testing::TempDir()) / "pageable_memory";
  std::filesystem::create_directories(root / "proc");
  std::ofstream(root / "proc/meminfo") << "MemTotal: 64 kB\nMemAvailable: 32 kB\n";
  const auto memory = make_pageable_memory(0, root);
  EXPECT_THAT([&] { (void)memory->pin(32 * 1024 + 1); },
              fails_with(absl::StatusCode::kResourceExhausted, "MemAvailable"));
  memory->unpin(memory->pin(32 * 1024), 32 * 1024);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace ebb
