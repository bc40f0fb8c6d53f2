#include <cstring>
#include <vector>

#include "tests/kernels/kernel_fixture.h"

namespace ebb {
namespace {

EBB_KERNEL_TEST(Table);

TEST_P(Table, HasEveryEntry) {
  static_assert(sizeof(Kernels) % sizeof(void (*)()) == 0);
  std::vector<void (*)()> entries(sizeof(Kernels) / sizeof(void (*)()));
  std::memcpy(entries.data(), &kernels(), sizeof(Kernels));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    EXPECT_NE(entries[i], nullptr) << "entry " << i;
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_NE(entries[i], entries[j]) << i << " and " << j;
  }
}

}  // namespace
}  // namespace ebb
