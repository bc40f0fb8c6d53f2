#include "runtime/train/text_data.h"

#include <algorithm>
#include <cstddef>

#include "allocator/error.h"
#include "allocator/read_file.h"
#include "kernels/philox.h"
#include "runtime/train/tokenizer.h"

namespace ebb::train {
namespace {

// Texts are held whole, four bytes a token.
constexpr std::size_t kMostBytes = std::size_t{4} << 30;
// Keeps the draws of batches apart from those of dropout, which has the same seed.
constexpr std::uint32_t kDomain = 0x62617463U;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(absl::StatusCode::kInvalidArgument, message);
}

void fill(std::span<const std::int32_t> text, std::size_t begin, std::size_t seq,
          std::size_t row, const BatchView& batch) {
  const auto from = text.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto n = static_cast<std::ptrdiff_t>(seq);
  std::copy_n(from, n, batch.tokens.begin() + static_cast<std::ptrdiff_t>(row) * n);
  std::copy_n(from + 1, n, batch.targets.begin() + static_cast<std::ptrdiff_t>(row) * n);
}

}  // namespace

TextData TextData::load(const std::string& path, std::int64_t seq,
                        std::int64_t vocabulary) {
  return {path, read_file(path, kMostBytes), seq, vocabulary};
}

TextData::TextData(const std::string& name, absl::string_view text, std::int64_t seq,
                   std::int64_t vocabulary)
    : seq_(seq), tokens_(encode_bytes(text)) {
  EBB_CHECK(seq > 0, kInvalidArgument, "a sequence has at least one token, not ", seq);
  if (text.empty()) refuse(absl::StrCat(name, " is empty"));
  const std::size_t split = tokens_.size() - tokens_.size() / 10;
  const std::span<const std::int32_t> all(tokens_);
  training_ = all.first(split);
  validation_ = all.subspan(split);
  // A sample is `seq` tokens and the one that follows.
  if (split < static_cast<std::size_t>(seq) + 1) {
    const std::string remedy =
        split > 1 ? absl::StrCat("take a longer text, or sequences of at most ", split - 1)
                  : "take a longer text";
    refuse(absl::StrCat(name, " is too short: of its ", tokens_.size(), " bytes ", split,
                        " are for training, and a sequence of ", seq, " needs ", seq + 1,
                        "; ", remedy));
  }
  const std::int32_t highest = *std::max_element(tokens_.begin(), tokens_.end());
  if (highest >= vocabulary) {
    refuse(absl::StrCat(name, " holds a byte of value ", highest,
                        ", outside of a vocabulary of ", vocabulary, "; ", kByteVocabulary,
                        " has room for every byte"));
  }
}

void TextData::training_batch(std::uint64_t seed, std::uint32_t step,
                              std::uint64_t first_sample, const BatchView& batch) const {
  const auto seq = static_cast<std::size_t>(seq_);
  const std::uint64_t starts = training_.size() - seq;
  const std::size_t rows = batch.tokens.size() / seq;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::uint64_t sample = first_sample + row;
    const PhiloxBlock drawn = philox4x32(
        {static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(sample >> 32),
         kDomain, step},
        static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
    const std::uint64_t number = (std::uint64_t{drawn[1]} << 32) | drawn[0];
    fill(training_, number % starts, seq, row, batch);
  }
}

bool TextData::validation_batch(std::int64_t index, std::int64_t count,
                                const BatchView& batch) const {
  const auto seq = static_cast<std::size_t>(seq_);
  if (validation_.size() < seq + 1) return false;
  const std::size_t last = validation_.size() - seq - 1;
  const std::size_t rows = batch.tokens.size() / seq;
  const std::size_t samples = static_cast<std::size_t>(count) * rows;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t sample = static_cast<std::size_t>(index) * rows + row;
    fill(validation_, samples > 1 ? last * sample / (samples - 1) : 0, seq, row, batch);
  }
  return true;
}

}  // namespace ebb::train
