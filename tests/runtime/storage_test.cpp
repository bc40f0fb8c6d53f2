#include "runtime/tensor/storage.h"

#include <array>
#include <cstddef>

#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/tensor/launch.h"
#include "runtime/tensor/tensor.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::tensor {
namespace {

TEST(Storage, IsNeverNumberedAsAnotherWas) {
  const auto device = test::checked_sim();
  const StorageRef first = Storage::allocate(*device, 512, Purpose::kActivations);
  const std::uint64_t id = first->id();
  const std::uintptr_t address = first->address();
  StorageRef second = Storage::allocate(*device, 512, Purpose::kActivations);
  EXPECT_GT(second->id(), id);
  const std::uint64_t second_id = second->id();
  const std::uintptr_t second_address = second->address();
  EXPECT_NE(second_address, address);
  second.reset();
  const StorageRef third = Storage::allocate(*device, 512, Purpose::kActivations);
  EXPECT_EQ(third->address(), second_address) << "the address is used again";
  EXPECT_GT(third->id(), second_id) << "the number is not";
}

TEST(Storage, GivesItsMemoryBackWhenTheLastReferenceGoes) {
  const auto device = test::checked_sim();
  StorageRef storage = Storage::allocate(*device, 1024, Purpose::kGradients);
  StorageRef other = storage;
  storage.reset();
  EXPECT_EQ(device->memory().figures().lent[Purpose::kGradients], 1024U);
  other.reset();
  EXPECT_EQ(device->memory().figures().lent.total(), 0U);
}

TEST(Storage, IsRefusedWhereItDoesNotFit) {
  const auto device = test::checked_sim();
  const std::size_t too_much = std::size_t{1} << 40;
  EXPECT_EQ(Storage::try_allocate(*device, too_much, Purpose::kActivations,
                                  device->current_stream()),
            nullptr);
  try {
    Storage::allocate(*device, too_much, Purpose::kActivations);
    FAIL() << "it does not fit";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_NE(
      Storage::try_allocate(*device, 512, Purpose::kActivations, device->current_stream()),
      nullptr);
}

TEST(Storage, HandsAJobsOwnMemoryBackWithTheLastUse) {
  const auto device = test::checked_sim();
  const StorageRef memory = Storage::allocate(*device, 512, Purpose::kActivations);
  int called = 0;
  bool fenced = false;
  {
    const Tensor tensor =
        Tensor::from_blob(*device, reinterpret_cast<void*>(memory->address()), {128},
                          DType::kF32, [&](const Fence& last_use) {
                            ++called;
                            fenced = !last_use.empty();
                          });
    EXPECT_TRUE(tensor.storage()->adopted());
    launch(test::op_named("write"), {}, {tensor}, [](void*) {});
    EXPECT_EQ(called, 0);
  }
  EXPECT_EQ(called, 1);
  EXPECT_TRUE(fenced);
}

TEST(Storage, SurvivesADeleterThatThrows) {
  const auto device = test::checked_sim();
  std::array<std::byte, 8> bytes{};
  testing::internal::CaptureStderr();
  Storage::adopt(*device, bytes.data(), bytes.size(), Purpose::kActivations,
                 [](const Fence&) {
                   throw Error(absl::StatusCode::kInternal, "cannot be given back");
                 })
      .reset();
  EXPECT_NE(testing::internal::GetCapturedStderr().find("cannot be given back"),
            std::string::npos);
  EXPECT_THROW(
      Storage::adopt(*device, nullptr, 8, Purpose::kActivations, [](const Fence&) {}),
      Error);
}

}  // namespace
}  // namespace ebb::tensor
