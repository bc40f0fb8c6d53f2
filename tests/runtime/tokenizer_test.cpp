#include "runtime/train/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace ebb::train {
namespace {

using test::fails_with;
using ::testing::ElementsAre;

TEST(TokenizerTest, TakesEachByteForAToken) {
  EXPECT_THAT(encode_bytes(absl::string_view("a\0\xff", 3)), ElementsAre(97, 0, 255));
  EXPECT_THAT(encode_bytes(""), ElementsAre());
}

TEST(TokenizerTest, DecodesWhatItEncoded) {
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every.push_back(static_cast<char>(byte));
  EXPECT_EQ(decode_bytes(encode_bytes(every)), every);
}

TEST(TokenizerTest, DecodesNothingThatIsNoByte) {
  for (const std::int32_t token : {-1, 256}) {
    EXPECT_THAT([&] { decode_bytes(std::vector<std::int32_t>{token}); },
                fails_with(absl::StatusCode::kInvalidArgument));
  }
}

TEST(TokenizerTest, ShowsATerminalNothingThatCouldUpsetIt) {
  EXPECT_EQ(printable("two\nlines"), "two\nlines");
  EXPECT_EQ(printable("\x1b[2J\xe9\t"), "\\x1b[2J\\xe9\\x09");
}

}  // namespace
}  // namespace ebb::train
