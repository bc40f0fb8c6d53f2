#include "runtime/tensor/hash_bytes.h"

#include <string>

#include <gtest/gtest.h>

namespace ebb::tensor {
namespace {

TEST(HashBytesTest, HashesEveryByteAndItsPlace) {
  const std::string text = "the quick brown fox";
  const std::uint64_t whole = hash_bytes(text.data(), text.size());
  EXPECT_EQ(hash_bytes(text.data(), text.size()), whole);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string other = text;
    other[i] = static_cast<char>(other[i] ^ 1);
    EXPECT_NE(hash_bytes(other.data(), other.size()), whole) << i;
  }
  EXPECT_NE(hash_bytes(text.data(), text.size() - 1), whole);
  EXPECT_NE(hash_bytes("ab", 2), hash_bytes("ba", 2));
  EXPECT_NE(hash_bytes("b", 1, hash_bytes("a", 1)), hash_bytes("a", 1, hash_bytes("b", 1)));
}

}  // namespace
}  // namespace ebb::tensor
