#include "runtime/tensor/launch.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "allocator/error.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::tensor {
namespace {

void write_ones(const Tensor& tensor) {
  launch(test::op_named("ones"), {}, {tensor},
         [data = tensor.data_as<float>(), n = tensor.elements()](void*) {
           for (std::int64_t i = 0; i < n; ++i) data[i] = 1;
         });
}

TEST(Launch, MovesBytesThereAndBackInEveryOrder) {
  for (const device::Order& order : test::all_orders()) {
    const auto device = test::checked_sim(order);
    const std::vector<float> values = test::random_values(100, 3);
    const Tensor x = test::tensor_of(*device, {100}, values);
    EXPECT_EQ(test::values_of(x), values) << test::order_name(order);
    write_ones(x);
    EXPECT_EQ(test::values_of(x), std::vector<float>(100, 1)) << test::order_name(order);
  }
}

TEST(Launch, DeclaresWhatTheOpTouches) {
  const auto device = test::guarded_sim();
  const Tensor declared = Tensor::empty(*device, {2048}, DType::kF32);
  const Tensor undeclared = Tensor::empty(*device, {2048}, DType::kF32);
  write_ones(declared);
  device->synchronize();
  launch(test::op_named("sneaky"), {}, {declared},
         [data = undeclared.data_as<float>()](void*) { data[1024] = 1; });
  EXPECT_THROW(device->synchronize(), Error);
}

TEST(Launch, ReadsAndWritesOneTensor) {
  const auto device = test::guarded_sim();
  const Tensor x = test::tensor_of(*device, {2}, {1, 2});
  launch(test::op_named("double"), {x}, {x}, [data = x.data_as<float>()](void*) {
    data[0] *= 2;
    data[1] *= 2;
  });
  EXPECT_EQ(test::values_of(x), (std::vector<float>{2, 4}));
}

TEST(Launch, AReadAndWrittenTensorCountsAsWritten) {
  const auto device = test::checked_sim();
  const Tensor x = test::tensor_of(*device, {2}, {1, 2});
  launch(test::op_named("both"), {x}, {x}, [](void*) {});
  device::Stream& before = device->current_stream();
  device::Stream& other = device->create_stream("other");
  device->set_current_stream(other);
  EXPECT_THROW(launch(test::op_named("unordered read"), {x}, {}, [](void*) {}), Error);
  device->set_current_stream(before);
  device->synchronize();
  device->destroy_stream(other);
}

TEST(Launch, PassesOverUndefinedTensors) {
  const auto device = test::checked_sim();
  const Tensor x = Tensor::empty(*device, {2}, DType::kF32);
  EXPECT_NO_THROW(launch(test::op_named("op"), {Tensor()}, {x, Tensor()}, [](void*) {}));
  EXPECT_THROW(launch(test::op_named("op"), {Tensor()}, {}, [](void*) {}), Error);
}

TEST(Launch, RefusesTensorsOfTwoDevices) {
  const auto one = test::checked_sim();
  const auto two = test::checked_sim();
  const Tensor a = Tensor::empty(*one, {2}, DType::kF32);
  const Tensor b = Tensor::empty(*two, {2}, DType::kF32);
  EXPECT_THROW(launch(test::op_named("op"), {a}, {b}, [](void*) {}), Error);
}

TEST(Launch, LetsAStorageKnowItsLastUse) {
  const auto device = test::checked_sim();
  const Tensor x = Tensor::empty(*device, {2}, DType::kF32);
  EXPECT_TRUE(x.storage()->last_use().empty());
  write_ones(x);
  EXPECT_FALSE(x.storage()->last_use().empty());
}

TEST(Launch, AsksForTheCurrentStreamAtEachCall) {
  const auto device = test::checked_sim();
  device::Stream& before = device->current_stream();
  device::Stream& other = device->create_stream("other");
  const Tensor x = Tensor::empty(*device, {2}, DType::kF32);
  device->set_current_stream(other);
  const Event end = launch(test::op_named("op"), {}, {x}, [](void*) {});
  EXPECT_EQ(end.source(), &other);
  device->set_current_stream(before);
  before.wait(end, {});
  device->synchronize();
  device->destroy_stream(other);
}

TEST(Launch, GivesMemoryToTheNextTensorInOrder) {
  for (const device::Order& order : test::all_orders()) {
    const auto device = test::checked_sim(order);
    Tensor x = Tensor::empty(*device, {128}, DType::kF32);
    const Tensor y = Tensor::empty(*device, {128}, DType::kF32);
    write_ones(x);
    launch(test::op_named("copy"), {x}, {y},
           [from = x.data(), to = y.data()](void*) { std::memcpy(to, from, 512); });
    const void* address = x.data();
    x = {};
    x = test::tensor_of(*device, {128}, std::vector<float>(128, 5));
    EXPECT_EQ(x.data(), address);
    EXPECT_EQ(test::values_of(y), std::vector<float>(128, 1)) << test::order_name(order);
  }
}

TEST(Launch, CountsWritesInPlace) {
  const auto device = test::checked_sim();
  const Tensor x = test::tensor_of(*device, {2}, {1, 2});
  const auto version = x.storage()->version();
  const auto before = version->value.load();
  written_in_place(x.slice(0, 0, 1));
  EXPECT_EQ(version->value.load(), before + 1);
  const float values[] = {3, 4};
  copy_from_host(x, values);
  EXPECT_EQ(version->value.load(), before + 2);
}

TEST(Launch, CopiesOnlyContiguousTensors) {
  const auto device = test::checked_sim();
  const Tensor x = test::tensor_of(*device, {2, 2}, {1, 2, 3, 4});
  float values[4] = {};
  EXPECT_THROW(copy_to_host(x.transpose(0, 1), values), Error);
  EXPECT_THROW(copy_from_host(x.transpose(0, 1), values), Error);
}

TEST(Launch, LeavesHostMemoryAloneOnADryDevice) {
  const auto device = test::dry_sim();
  const Tensor x = Tensor::empty(*device, {2}, DType::kF32);
  float values[] = {3, 4};
  copy_to_host(x, values);
  EXPECT_EQ(values[0], 3);
}

}  // namespace
}  // namespace ebb::tensor
