#include "runtime/train/text_data.h"

#include <cstdlib>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/io/atomic_file.h"
#include "tests/support/errors.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_training.h"

namespace ebb::train {
namespace {

using test::refuses;

constexpr std::int64_t kSeq = 8;

struct Batch {
  explicit Batch(std::size_t rows) : tokens(rows * kSeq), targets(rows * kSeq) {}
  BatchView view() { return {tokens, targets}; }
  std::vector<std::int32_t> row(std::size_t i) const {
    const auto from = tokens.begin() + static_cast<std::ptrdiff_t>(i * kSeq);
    return {from, from + kSeq};
  }

  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
};

class TextDataTest : public ::testing::Test {
 protected:
  Batch batch(std::uint64_t seed, std::uint32_t step, std::uint64_t first,
              std::size_t rows = 2) const {
    Batch result(rows);
    data_.training_batch(seed, step, first, result.view());
    return result;
  }

  TextData data_{"the text", test::tiny_text(), kSeq, 128};
};

TEST_F(TextDataTest, KeepsTheLastTenthForValidation) {
  const std::size_t size = test::tiny_text().size();
  EXPECT_EQ(data_.validation().size(), size / 10);
  EXPECT_EQ(data_.training().size(), size - size / 10);
  EXPECT_EQ(data_.training().data() + data_.training().size(), data_.validation().data());
}

TEST_F(TextDataTest, ATargetIsTheTokenThatFollows) {
  const Batch drawn = batch(1, 0, 0);
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t i = 0; i + 1 < kSeq; ++i) {
      EXPECT_EQ(drawn.targets[row * kSeq + i], drawn.tokens[row * kSeq + i + 1]);
    }
  }
}

TEST_F(TextDataTest, ASampleDependsOnSeedStepAndItsOwnNumberAlone) {
  EXPECT_EQ(batch(1, 2, 3).tokens, batch(1, 2, 3).tokens);
  EXPECT_NE(batch(1, 2, 3).tokens, batch(2, 2, 3).tokens);
  EXPECT_NE(batch(1, 2, 3).tokens, batch(1, 3, 3).tokens);
  // Two ranks with one sample each hold what one rank with two holds.
  EXPECT_EQ(batch(1, 2, 4, 1).row(0), batch(1, 2, 3).row(1));
}

TEST_F(TextDataTest, TrainsOnEveryPieceOfItsPartAndOnNothingElse) {
  std::set<std::vector<std::int32_t>> seen;
  for (std::uint32_t step = 0; step < 400; ++step) {
    const Batch drawn = batch(1, step, 0, 16);
    for (std::size_t row = 0; row < 16; ++row) seen.insert(drawn.row(row));
  }
  std::set<std::vector<std::int32_t>> all;
  const auto text = data_.training();
  for (std::size_t i = 0; i + kSeq < text.size(); ++i) {
    all.emplace(text.begin() + static_cast<std::ptrdiff_t>(i),
                text.begin() + static_cast<std::ptrdiff_t>(i + kSeq));
  }
  for (const auto& sample : seen) EXPECT_TRUE(all.contains(sample));
  EXPECT_GT(seen.size(), all.size() * 9 / 10);
}

TEST_F(TextDataTest, SpreadsValidationOverItsWholePart) {
  Batch first(2);
  Batch last(2);
  ASSERT_TRUE(data_.validation_batch(0, 2, first.view()));
  ASSERT_TRUE(data_.validation_batch(1, 2, last.view()));
  const auto text = data_.validation();
  EXPECT_EQ(first.row(0), std::vector<std::int32_t>(text.begin(), text.begin() + kSeq));
  EXPECT_EQ(last.row(1), std::vector<std::int32_t>(text.end() - kSeq - 1, text.end() - 1));
  EXPECT_EQ(last.targets.back(), text.back());
}

TEST_F(TextDataTest, HasNoValidationWhereItsPartIsShorterThanASequence) {
  const TextData data("the text", "0123456789 123456789", kSeq, 128);
  Batch filled(1);
  EXPECT_FALSE(data.validation_batch(0, 1, filled.view()));
}

TEST_F(TextDataTest, SaysWhatWouldWorkForATextThatIsTooShort) {
  EXPECT_THAT([] { TextData("verses", "", kSeq, 128); }, refuses("verses is empty"));
  EXPECT_THAT(
      [] { TextData("verses", "12345678", kSeq, 128); },
      refuses("verses is too short: of its 8 bytes 8 are for training, and a "
              "sequence of 8 needs 9; take a longer text, or sequences of at most 7"));
  EXPECT_THAT([] { TextData("verses", "1", 1, 128); }, refuses("take a longer text"));
  EXPECT_NO_THROW(TextData("verses", "123456789", kSeq, 128));
  EXPECT_THAT([] { TextData("verses", "123456789", 0, 128); },
              refuses("at least one token"));
}

TEST_F(TextDataTest, NamesAByteOutsideOfTheVocabulary) {
  EXPECT_THAT([] { TextData("verses", "123456789", kSeq, 57); },
              refuses("byte of value 57, outside of a vocabulary of 57"));
  EXPECT_NO_THROW(TextData("verses", "123456789", kSeq, 58));
}

TEST_F(TextDataTest, NamesAFileThatItCannotRead) {
  const test::TempFolder folder;
  const std::string path = folder.path("text");
  EXPECT_THAT([&] { TextData::load(path, kSeq, 128); }, refuses(path));
  EXPECT_THAT([&] { TextData::load(folder.path().string(), kSeq, 128); },
              refuses("directory"));
  io::write_atomically(path, "");
  EXPECT_THAT([&] { TextData::load(path, kSeq, 128); }, refuses(path + " is empty"));
  io::write_atomically(path, "0123456789");
  EXPECT_EQ(TextData::load(path, kSeq, 128).training().size(), 9U);
}

}  // namespace
}  // namespace ebb::train
