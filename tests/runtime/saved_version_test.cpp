#include "runtime/tensor/saved_version.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/tensor/launch.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::tensor {
namespace {

using ::testing::HasSubstr;

TEST(SavedVersion, NamesTheOpAndBothVersionsOfWhatWasWrittenSince) {
  const auto device = test::checked_sim();
  const Tensor tensor = Tensor::empty(*device, {4}, DType::kF32);
  written_in_place(tensor);
  const SavedVersion saved(tensor);
  saved.check("gelu");
  written_in_place(tensor);
  try {
    saved.check("gelu");
    FAIL() << "it was written in place";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), absl::StatusCode::kFailedPrecondition);
    const std::string what = error.what();
    EXPECT_THAT(what, HasSubstr("gelu saved for backward was written in place since"));
    EXPECT_THAT(what, HasSubstr("version 2, and was saved at version 1;"));
  }
}

TEST(SavedVersion, SeesAWriteThroughAnotherViewOfTheStorage) {
  const auto device = test::checked_sim();
  const Tensor tensor = Tensor::empty(*device, {4}, DType::kF32);
  const SavedVersion saved(tensor.alias());
  written_in_place(tensor);
  EXPECT_THROW(saved.check("gelu"), Error);
}

TEST(SavedVersion, OutlivesTheStorageAndOfNothingIsNeverWritten) {
  const auto device = test::checked_sim();
  const SavedVersion saved(Tensor::empty(*device, {4}, DType::kF32));
  saved.check("gelu");
  SavedVersion().check("gelu");
  SavedVersion(Tensor()).check("gelu");
}

}  // namespace
}  // namespace ebb::tensor
