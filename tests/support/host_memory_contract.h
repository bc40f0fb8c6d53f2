// What every HostMemory must do. The test of each implementation includes this, and adds
//   INSTANTIATE_TEST_SUITE_P(Pageable, HostMemoryContract, ::testing::Values(kPageable));
// where kPageable is a HostMemoryMaker.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <latch>
#include <limits>
#include <memory>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "allocator/host_memory.h"
#include "tests/support/errors.h"

namespace ebb::test {

struct HostMemoryMaker {
  std::string name;
  // Throws Error{kUnavailable} where the machine lacks what it takes: this skips the test,
  // or fails it if the environment says EBB_REQUIRE_<name>.
  std::function<std::unique_ptr<HostMemory>()> make;
  bool backed = true;  // There is memory to write to.
};

class HostMemoryContract : public ::testing::TestWithParam<HostMemoryMaker> {
 protected:
  static constexpr std::size_t kPageBytes = 4096;

  void SetUp() override {
    try {
      memory_ = GetParam().make();
    } catch (const Error& error) {
      const std::string variable = "EBB_REQUIRE_" + GetParam().name;
      const bool required = std::getenv(variable.c_str()) != nullptr;
      if (required || error.code() != absl::StatusCode::kUnavailable) throw;
      GTEST_SKIP() << error.what();
    }
  }

  // Of unbacked memory there is nothing to fill: it passes.
  static void fill(std::byte* data, std::size_t bytes, std::byte mark) {
    if (GetParam().backed) std::fill_n(data, bytes, mark);
  }
  static bool holds(const std::byte* data, std::size_t bytes, std::byte mark) {
    return !GetParam().backed ||
           std::all_of(data, data + bytes, [=](std::byte b) { return b == mark; });
  }

  std::unique_ptr<HostMemory> memory_;
};

TEST_P(HostMemoryContract, ReturnsAlignedPagesThatCanBeWritten) {
  const std::size_t bytes = 3 * kPageBytes + 1;
  std::byte* data = memory_->pin(bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % kPageBytes, 0U);
  fill(data, bytes, std::byte{0xEB});
  EXPECT_TRUE(holds(data, bytes, std::byte{0xEB}));
  memory_->unpin(data, bytes);
}

TEST_P(HostMemoryContract, RefusesZeroBytes) {
  EXPECT_THAT([this] { (void)memory_->pin(0); },
              fails_with(absl::StatusCode::kInvalidArgument));
}

TEST_P(HostMemoryContract, RefusesMoreThanThereIsAndGoesOn) {
  EXPECT_THAT([this] { (void)memory_->pin(std::numeric_limits<std::size_t>::max() / 4); },
              fails_with(absl::StatusCode::kResourceExhausted));
  memory_->unpin(memory_->pin(kPageBytes), kPageBytes);
}

TEST_P(HostMemoryContract, FindsRoomForWhatItThenPins) {
  EXPECT_NO_THROW(memory_->check_room(kPageBytes));
  memory_->unpin(memory_->pin(kPageBytes), kPageBytes);
}

TEST_P(HostMemoryContract, GivesThreadsMemoryOfTheirOwn) {
  std::latch start(4);  // Before the threads, so that it outlives them.
  std::array<std::jthread, 4> threads;
  unsigned char next = 0;
  for (std::jthread& thread : threads) {
    thread = std::jthread([this, &start, mark = std::byte{next++}] {
      start.arrive_and_wait();
      for (int i = 0; i < 50; ++i) {
        std::byte* data = memory_->pin(kPageBytes);
        fill(data, kPageBytes, mark);
        std::this_thread::yield();
        EXPECT_TRUE(holds(data, kPageBytes, mark));
        memory_->unpin(data, kPageBytes);
      }
    });
  }
}

}  // namespace ebb::test
