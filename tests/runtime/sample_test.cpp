#include "runtime/train/sample.h"

#include <array>
#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/philox.h"
#include "runtime/autograd/autograd.h"
#include "runtime/train/tokenizer.h"
#include "tests/support/errors.h"
#include "tests/support/tiny_training.h"

namespace ebb::train {
namespace {

using test::fails_with;

TEST(SampleTest, DrawsTheLikeliestAtNoTemperature) {
  const std::vector<float> logits{0, 3, 1, 3};
  EXPECT_EQ(draw(logits, 0, 0), 1);
  EXPECT_EQ(draw(logits, 0, 0xffffffffU), 1);
}

TEST(SampleTest, DrawsInProportionToTheSoftmax) {
  const std::vector<float> logits{0, std::log(2.0F), std::log(5.0F)};
  std::array<int, 3> counts{};
  constexpr int kDraws = 80000;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    ++counts.at(static_cast<std::size_t>(draw(logits, 1, random_block({}, 0, i)[0])));
  }
  // Six standard deviations of a count are at most 6 sqrt(n / 4) < 850.
  EXPECT_NEAR(counts[0], kDraws / 8, 850);
  EXPECT_NEAR(counts[1], kDraws / 4, 850);
  EXPECT_NEAR(counts[2], kDraws * 5 / 8, 850);
}

TEST(SampleTest, CoversBothEndsOfTheRandomNumbers) {
  const std::vector<float> logits{0, 0, 0, 0};
  EXPECT_EQ(draw(logits, 1, 0), 0);
  EXPECT_EQ(draw(logits, 1, 0xffffffffU), 3);
}

class SampleTextTest : public ::testing::Test {
 protected:
  test::TinyTraining tiny_{test::checked_sim()};
  std::vector<std::int32_t> prompt_ = encode_bytes("verse 1");
};

TEST_F(SampleTextTest, IsTheSameEachTimeAndOtherWithAnotherSeed) {
  const SampleOptions options{.tokens = 24, .context = 16, .seed = 1};
  const std::string text = sample_text(tiny_.model, prompt_, options);
  EXPECT_EQ(text.size(), 24U);
  EXPECT_EQ(sample_text(tiny_.model, prompt_, options), text);
  EXPECT_NE(sample_text(tiny_.model, prompt_, {.tokens = 24, .context = 16, .seed = 2}),
            text);
}

TEST_F(SampleTextTest, LeavesModesAndMemoryAsTheyWere) {
  tiny_.device->synchronize();
  const std::size_t before = tiny_.device->memory().figures().live.total();
  (void)sample_text(tiny_.model, prompt_, {.tokens = 3, .context = 4, .temperature = 0});
  (void)validation_loss(tiny_.model, tiny_.data, 2, 2);
  tiny_.device->synchronize();
  EXPECT_EQ(tiny_.device->memory().figures().live.total(), before);
  EXPECT_TRUE(autograd::grad_enabled());
  EXPECT_TRUE(autograd::training());
}

TEST_F(SampleTextTest, NeedsAPrompt) {
  EXPECT_THAT([&] { sample_text(tiny_.model, {}, {}); },
              fails_with(absl::StatusCode::kInvalidArgument));
}

TEST_F(SampleTextTest, ANewModelKnowsNothingOfUnseenText) {
  const std::optional<double> loss = validation_loss(tiny_.model, tiny_.data, 3, 2);
  ASSERT_TRUE(loss.has_value());
  EXPECT_NEAR(*loss, std::log(128.0), 0.3);
  EXPECT_EQ(validation_loss(tiny_.model, tiny_.data, 3, 2), loss);  // No dropout.
}

TEST_F(SampleTextTest, ThereIsNoValidationInATextThatIsTooShort) {
  const TextData data("short", "0123456789 123456789", 8, 128);
  EXPECT_FALSE(validation_loss(tiny_.model, data, 1, 1).has_value());
}

}  // namespace
}  // namespace ebb::train
