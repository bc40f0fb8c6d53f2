#include "runtime/autograd/primitive.h"

#include <vector>

#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/tensor/launch.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::autograd {
namespace {

using test::values_of;
using Floats = std::vector<float>;

// Keeps the records of what ran.
class Recorder final : public device::OpObserver {
 public:
  explicit Recorder(device::Device& device) : device_(device) {
    device_.set_observer(this);
  }
  ~Recorder() override { device_.set_observer(nullptr); }
  void on_op(const device::OpRecord& record) override { records.push_back(record); }

  std::vector<device::OpRecord> records;

 private:
  device::Device& device_;
};

TEST(Primitive, CarriesPhaseAndStage) {
  const auto device = test::checked_sim();
  const Tensor y = Tensor::empty(*device, {4}, DType::kF32);
  Recorder recorder(*device);
  {
    const StageScope stage(5);
    const PhaseScope phase(device::Phase::kOptimizer);
    fill(y, 1);
  }
  device->synchronize();
  ASSERT_EQ(recorder.records.size(), 1U);
  EXPECT_EQ(recorder.records[0].stage, 5);
  EXPECT_EQ(recorder.records[0].phase, device::Phase::kOptimizer);
}

TEST(Primitive, TakesAsLongAsItsBytesAndFlopsSay) {
  const auto device = test::checked_sim();
  const device::Profile profile = device::load_profile("a100-pcie4");
  const Tensor a = Tensor::empty(*device, {1 << 20}, DType::kF32);
  const Tensor b = Tensor::empty(*device, {1 << 20}, DType::kF32);
  fill(a, 1);
  device->synchronize();
  Recorder recorder(*device);
  add_to(a, a, b);  // Each operand once: 8 MiB.
  launch_op({.name = "busy", .flops = 1e9}, {a}, {b}, [](void*) {});
  device->synchronize();
  ASSERT_EQ(recorder.records.size(), 2U);
  const auto seconds = [&](std::size_t i) {
    return recorder.records[i].end - recorder.records[i].start;
  };
  EXPECT_NEAR(seconds(0), profile.seconds({1 << 20, 8 << 20, DType::kF32}), 1e-12);
  EXPECT_NEAR(seconds(1), profile.seconds({1e9, 8 << 20, DType::kF32}), 1e-12);
}

TEST(Primitive, WorkspaceIsUndefinedForNothing) {
  const auto device = test::checked_sim();
  EXPECT_FALSE(workspace(*device, 0).defined());
  EXPECT_EQ(workspace_of(Tensor()).data, nullptr);
  const Tensor scratch = workspace(*device, 100);
  EXPECT_EQ(scratch.storage()->purpose(), Purpose::kWorkspace);
  EXPECT_EQ(workspace_of(scratch).bytes, 100U);
}

TEST(Primitive, DoesTheArithmetic) {
  const auto device = test::guarded_sim();
  const Tensor x = test::tensor_of(*device, {2, 2}, {1, 2, 3, 4});
  const Tensor y = Tensor::empty(*device, {2, 2}, DType::kF32);
  fill(y, 7);
  EXPECT_EQ(values_of(y), Floats(4, 7));
  copy(x.transpose(0, 1), y);
  EXPECT_EQ(values_of(y), (Floats{1, 3, 2, 4}));
  add_to(x, y, y);
  EXPECT_EQ(values_of(y), (Floats{2, 5, 5, 8}));
  const Tensor factor = test::tensor_of(*device, {1}, {10});
  scale_to(y, 2, factor, y);
  EXPECT_EQ(values_of(y), (Floats{40, 100, 100, 160}));
  scale_to(x, 3, {}, y);
  EXPECT_EQ(values_of(y), (Floats{3, 6, 9, 12}));
  EXPECT_THROW(fill(x.transpose(0, 1), 0), Error);
  EXPECT_THROW(copy(x, Tensor::empty(*device, {4}, DType::kF32)), Error);
}

TEST(Primitive, DoesNothingToNoElements) {
  const auto device = test::checked_sim();
  const Tensor none = Tensor::empty(*device, {0, 3}, DType::kF32);
  fill(none, 1);
  copy(none, none.alias());
  add_to(none, none, none);
  scale_to(none, 1, {}, none);
  EXPECT_NO_THROW(device->synchronize());
}

}  // namespace
}  // namespace ebb::autograd
