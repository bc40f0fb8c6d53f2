#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/nn/gpt2.h"

namespace ebb::nn {
namespace {

using testing::HasSubstr;

// Of the whole model, the tied head counted once.
std::int64_t parameters(const Gpt2Config& c) {
  const std::int64_t block = 12 * c.hidden * c.hidden + 13 * c.hidden;
  return (c.vocabulary + c.positions) * c.hidden + c.layers * block + 2 * c.hidden;
}

TEST(Gpt2Config, HasTheSizesThatWerePublished) {
  EXPECT_EQ(parameters(gpt2_config("gpt2")), 124'439'808);
  EXPECT_EQ(parameters(gpt2_config("gpt2-medium")), 354'823'168);
  EXPECT_EQ(parameters(gpt2_config("gpt2-large")), 774'030'080);
  EXPECT_EQ(parameters(gpt2_config("gpt2-xl")), 1'557'611'200);
}

TEST(Gpt2Config, HasASmallOneOnBytes) {
  const Gpt2Config nano = gpt2_config("gpt2-nano");
  EXPECT_EQ(nano.layers, 12);
  EXPECT_EQ(nano.heads, 6);
  EXPECT_EQ(nano.hidden, 384);
  EXPECT_EQ(nano.vocabulary, 256);
  EXPECT_EQ(nano.positions, 1024);
}

TEST(Gpt2Config, NamesWhatThereIsForANameThatIsNot) {
  for (const std::string& name : gpt2_names()) EXPECT_NO_THROW(gpt2_config(name));
  try {
    gpt2_config("gpt3");
    FAIL() << "there is none";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("gpt3"));
    for (const std::string& name : gpt2_names()) EXPECT_THAT(error.what(), HasSubstr(name));
  }
}

}  // namespace
}  // namespace ebb::nn
