#include <gtest/gtest.h>

#include "allocator/host_memory.h"
#include "tests/support/host_memory_contract.h"

namespace ebb {
namespace {

using test::HostMemoryContract;
using test::HostMemoryMaker;

const HostMemoryMaker kUnbacked{"UNBACKED", make_unbacked_memory, false};
INSTANTIATE_TEST_SUITE_P(Unbacked, HostMemoryContract, ::testing::Values(kUnbacked));

TEST(UnbackedMemory, HasMoreAddressesThanAMachineHasMemory) {
  constexpr std::size_t kBytes = std::size_t{1} << 38;
  const auto memory = make_unbacked_memory();
  std::byte* data = memory->pin(kBytes);
  EXPECT_NO_THROW(memory->check_room(kBytes));
  memory->unpin(data, kBytes);
}

TEST(UnbackedMemoryDeathTest, EndsAProcessThatTouchesIt) {
  const auto memory = make_unbacked_memory();
  std::byte* data = memory->pin(4096);
  EXPECT_DEATH(*static_cast<volatile std::byte*>(data) = std::byte{1}, "");
  memory->unpin(data, 4096);
}

}  // namespace
}  // namespace ebb
