#include "allocator/purpose.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace ebb {
namespace {

TEST(Purpose, HasANameOfItsOwn) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < kPurposes; ++i) names.insert(name(static_cast<Purpose>(i)));
  EXPECT_EQ(names, (std::set<std::string>{"activations", "gradients", "optimizer",
                                          "parameters", "staging", "workspace"}));
}

TEST(BytesByPurpose, CountsAsActivationsAllThatIsNotState) {
  BytesByPurpose bytes;
  std::size_t next = 1;
  for (std::size_t i = 0; i < kPurposes; ++i, next *= 10)
    bytes[static_cast<Purpose>(i)] = next;
  EXPECT_EQ(bytes.total(), 111'111U);
  EXPECT_EQ(bytes.activations(), 111'000U);
  EXPECT_EQ(BytesByPurpose().total(), 0U);
}

}  // namespace
}  // namespace ebb
