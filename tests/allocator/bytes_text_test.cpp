#include "allocator/bytes_text.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

TEST(BytesTextTest, WritesWholeNumbersWholeAndOthersWithTheDigitsThatMatter) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1 KiB");
  EXPECT_EQ(bytes_text(std::size_t{3} << 29), "1.50 GiB");
  EXPECT_EQ(bytes_text((std::size_t{25} << 20) / 2), "12.50 MiB");
  EXPECT_EQ(bytes_text((std::size_t{601} << 20) / 2), "300.5 MiB");
  EXPECT_EQ(bytes_text(std::size_t{40} << 30), "40 GiB");
  EXPECT_EQ(bytes_text(std::size_t{1} << 60), "1 EiB");
}

}  // namespace
}  // namespace ebb
