// A checked device whose memory must be empty when a test of the tape is over.

#pragma once

#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include "allocator/error.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::test {

// The code of the Error that `call` throws; kOk if it throws none.
inline absl::StatusCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return absl::StatusCode::kOk;
}

class TapeTest : public testing::Test {
 protected:
  ~TapeTest() override { EXPECT_EQ(leak(), 0U) << "bytes are left behind"; }
  // What the host still holds when all tensors of a test are gone.
  std::size_t leak() const { return device_->memory().figures().lent.total(); }
  Tensor leaf(std::uint64_t seed, const tensor::Shape& shape = {4}) {
    return random_leaf(*device_, shape, seed);
  }

  std::unique_ptr<device::CheckDevice> device_ = checked_sim();
};

}  // namespace ebb::test
