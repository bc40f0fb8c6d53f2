#include "runtime/autograd/verify_recompute.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::autograd {
namespace {

using testing::HasSubstr;

class VerifyRecomputeTest : public testing::Test {
 protected:
  ~VerifyRecomputeTest() override { set_verify_recompute(0); }

  std::unique_ptr<device::CheckDevice> device_ = test::checked_sim();
};

TEST_F(VerifyRecomputeTest, TakesEveryNth) {
  const Tensor x = test::random_tensor(*device_, {4}, 1);
  EXPECT_EQ(checksum_if_due(x).values, nullptr);
  set_verify_recompute(2);
  EXPECT_NE(checksum_if_due(x).values, nullptr);
  EXPECT_EQ(checksum_if_due(x).values, nullptr);
  EXPECT_NE(checksum_if_due(x).values, nullptr);
}

TEST_F(VerifyRecomputeTest, ComparesByValue) {
  set_verify_recompute(1);
  const Tensor x = test::random_tensor(*device_, {4}, 1);
  const Checksum checksum = checksum_if_due(x);
  verify_checksum(checksum, test::random_tensor(*device_, {4}, 1), "op");
  verify_checksum({}, test::random_tensor(*device_, {4}, 2), "op");
  EXPECT_NO_THROW(device_->synchronize());
  try {
    verify_checksum(checksum, test::random_tensor(*device_, {4}, 2), "some op");
    device_->synchronize();
    FAIL() << "other values";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(error.what(), HasSubstr("some op"));
  }
}

TEST_F(VerifyRecomputeTest, TakesNaNForNaN) {
  set_verify_recompute(1);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = test::tensor_of(*device_, {2}, {nan, 1});
  verify_checksum(checksum_if_due(x), x, "op");
  EXPECT_NO_THROW(device_->synchronize());
}

TEST_F(VerifyRecomputeTest, ChangesNeitherTheClockNorAByte) {
  const auto figures = [](int every) {
    const auto device = test::checked_sim();
    set_verify_recompute(every);
    const Tensor x = test::random_leaf(*device, {4}, 1);
    const Tensor inputs[] = {x};
    const Segment segment = [](std::span<const Tensor> in) {
      return std::vector<Tensor>{gelu(scale(in[0], 2))};
    };
    backward(sum(checkpoint(segment, inputs).front()));
    device->synchronize();
    return std::pair(device->now(), device->memory().figures().peak_bytes);
  };
  EXPECT_EQ(figures(1), figures(0));
}

TEST_F(VerifyRecomputeTest, PassesOverWhatItCannotSum) {
  set_verify_recompute(1);
  EXPECT_EQ(checksum_if_due(test::tokens_of(*device_, {2}, {1, 2})).values, nullptr);
  const auto dry = test::dry_sim();
  EXPECT_EQ(checksum_if_due(Tensor::empty(*dry, {2}, DType::kF32)).values, nullptr);
}

TEST_F(VerifyRecomputeTest, NamesTheFirstOpOfARecomputeThatDiffers) {
  float factor = 2;
  const Segment drifting = [&](std::span<const Tensor> in) {
    return std::vector<Tensor>{gelu(scale(in[0], factor))};
  };
  const Tensor x = test::random_leaf(*device_, {4}, 1);
  const Tensor inputs[] = {x};
  set_verify_recompute(1);
  const Tensor good = sum(checkpoint(drifting, inputs).front());
  backward(good);
  EXPECT_NO_THROW(device_->synchronize());
  const Tensor bad = sum(checkpoint(drifting, inputs).front());
  factor = 3;
  try {
    backward(bad);
    device_->synchronize();
    FAIL() << "the recompute differs";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(error.what(), HasSubstr("gelu"));
  }
  set_verify_recompute(0);
  factor = 2;
  const Tensor unseen = sum(checkpoint(drifting, inputs).front());
  factor = 3;
  backward(unseen);
  EXPECT_NO_THROW(device_->synchronize()) << "nobody looks";
}

}  // namespace
}  // namespace ebb::autograd
