#include "runtime/tensor/tensor.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "tests/support/sim_devices.h"

namespace ebb::tensor {
namespace {

using testing::ElementsAre;

class TensorTest : public testing::Test {
 protected:
  Tensor make(Shape shape) {
    return Tensor::empty(*device_, std::move(shape), DType::kF32);
  }

  std::unique_ptr<device::CheckDevice> device_ = test::checked_sim();
};

TEST_F(TensorTest, IsRowMajorWhenMade) {
  const Tensor tensor = make({2, 3, 4});
  EXPECT_THAT(tensor.shape(), ElementsAre(2, 3, 4));
  EXPECT_THAT(tensor.strides(), ElementsAre(12, 4, 1));
  EXPECT_EQ(tensor.elements(), 24);
  EXPECT_EQ(tensor.bytes(), 96U);
  EXPECT_EQ(tensor.size(-1), 4);
  EXPECT_EQ(tensor.size(0), 2);
  EXPECT_TRUE(tensor.contiguous());
  EXPECT_EQ(&tensor.device(), device_.get());
}

TEST_F(TensorTest, IsSharedByItsHandlesAndNoOthers) {
  const Tensor tensor = make({2});
  const Tensor handle = tensor;
  EXPECT_TRUE(handle.is(tensor));
  const Tensor alias = tensor.alias();
  EXPECT_FALSE(alias.is(tensor));
  EXPECT_EQ(alias.storage(), tensor.storage());
}

TEST_F(TensorTest, IsUniqueWithOneHandleAndNoOtherTensorOverItsStorage) {
  Tensor tensor = make({4});
  EXPECT_TRUE(tensor.unique());
  {
    const Tensor handle = tensor;
    EXPECT_FALSE(tensor.unique());
  }
  {
    const Tensor part = tensor.slice(0, 1, 2);
    EXPECT_FALSE(tensor.unique());
  }
  EXPECT_TRUE(tensor.unique());
  EXPECT_FALSE(Tensor().unique());
}

TEST_F(TensorTest, ViewsKeepTheElementsInOrder) {
  const Tensor tensor = make({2, 6});
  EXPECT_THAT(tensor.view({3, -1}).shape(), ElementsAre(3, 4));
  EXPECT_THAT(tensor.view({12}).strides(), ElementsAre(1));
  EXPECT_THROW(tensor.view({5, -1}), Error);
  EXPECT_THROW(tensor.view({13}), Error);
  EXPECT_THROW(tensor.view({-1, -1}), Error);
  EXPECT_THROW(tensor.transpose(0, 1).view({12}), Error);
}

TEST_F(TensorTest, TransposesAndSlicesPointIntoTheStorage) {
  const Tensor tensor = make({2, 6});
  const Tensor transposed = tensor.transpose(0, -1);
  EXPECT_THAT(transposed.shape(), ElementsAre(6, 2));
  EXPECT_THAT(transposed.strides(), ElementsAre(1, 6));
  EXPECT_FALSE(transposed.contiguous());
  const Tensor slice = tensor.slice(1, 2, 5);
  EXPECT_THAT(slice.shape(), ElementsAre(2, 3));
  EXPECT_EQ(slice.offset(), 2);
  EXPECT_FALSE(slice.contiguous());
  EXPECT_TRUE(tensor.slice(0, 1, 2).contiguous());
  EXPECT_EQ(tensor.slice(0, 2, 2).elements(), 0);
  EXPECT_THROW(tensor.slice(1, 5, 7), Error);
  EXPECT_THROW(tensor.slice(1, 3, 2), Error);
  EXPECT_THROW(tensor.slice(2, 0, 1), Error);
}

TEST_F(TensorTest, ExpandsWithoutMemory) {
  const Tensor expanded = make({3, 1}).expand({2, 3, 4});
  EXPECT_THAT(expanded.strides(), ElementsAre(0, 1, 0));
  EXPECT_EQ(expanded.elements(), 24);
  EXPECT_EQ(expanded.access(device::Access::Mode::kRead).bytes, 12U);
  EXPECT_FALSE(expanded.contiguous());
  EXPECT_THROW(make({3, 2}).expand({3, 4}), Error);
  EXPECT_THROW(make({3, 2}).expand({2}), Error);
}

TEST_F(TensorTest, DeclaresTheBytesFromTheFirstToTheLastElement) {
  const Tensor tensor = make({4, 8});
  const Tensor inner = tensor.slice(0, 1, 3).slice(1, 2, 6);
  const device::Access access = inner.access(device::Access::Mode::kWrite);
  EXPECT_EQ(access.address, tensor.storage()->address() + (8 + 2) * 4);
  EXPECT_EQ(access.bytes, (8 + 4) * 4U);
  EXPECT_EQ(access.mode, device::Access::Mode::kWrite);
}

TEST_F(TensorTest, RefusesWhatReachesOutsideOfItsStorage) {
  const StorageRef storage = make({10}).storage();
  EXPECT_NO_THROW(Tensor::over(storage, {2, 5}, DType::kF32));
  EXPECT_NO_THROW(Tensor::over(storage, {2, 2}, {7, 1}, DType::kF32, 1));
  EXPECT_THROW(Tensor::over(storage, {11}, DType::kF32), Error);
  EXPECT_THROW(Tensor::over(storage, {2, 2}, {7, 1}, DType::kF32, 2), Error);
  EXPECT_THROW(Tensor::over(storage, {2}, {-1}, DType::kF32, 5), Error);
  EXPECT_THROW(Tensor::over(storage, {2}, DType::kF32, -1), Error);
  EXPECT_THROW(Tensor::over(storage, {2, 2}, {1}, DType::kF32, 0), Error);
  EXPECT_THROW(Tensor::over(nullptr, {2}, DType::kF32), Error);
}

TEST_F(TensorTest, RefusesAbsurdShapes) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(make({kMost, kMost}), Error);
  EXPECT_THROW(make({-2}), Error);
  EXPECT_EQ(make({0, kMost}).elements(), 0);
}

TEST_F(TensorTest, SaysThatItIsUndefined) {
  const Tensor none;
  EXPECT_FALSE(none.defined());
  EXPECT_THROW(none.shape(), Error);
  EXPECT_THROW(none.alias(), Error);
}

}  // namespace
}  // namespace ebb::tensor
