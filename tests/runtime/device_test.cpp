#include "runtime/device/device.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "tests/support/devices.h"

namespace ebb::device {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Gives memory back when it is asked, `times` times.
class Giver final : public Reclaimer {
 public:
  Giver(DeviceMemory& memory, std::vector<std::uintptr_t> spare)
      : memory_(memory), spare_(std::move(spare)) {}

  bool reclaim(std::size_t /*bytes*/) override {
    if (spare_.empty()) return false;
    memory_.free(spare_.back(), {});
    spare_.pop_back();
    return true;
  }

 private:
  DeviceMemory& memory_;
  std::vector<std::uintptr_t> spare_;
};

TEST(DeviceMemory, SaysWhatWasAskedForWhatThereIsAndWhatUsesIt) {
  Profile profile = test::slow_profile();
  profile.capacity_bytes = 10240;
  const auto device = test::make_device({"dry", {}, true}, profile);
  Stream& stream = device->current_stream();
  (void)device->memory().allocate(4096, Purpose::kParameters, stream);
  (void)device->memory().allocate(2048, Purpose::kActivations, stream);
  try {
    (void)device->memory().allocate(8192, Purpose::kWorkspace, stream);
    FAIL() << "there is room";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("8192"), HasSubstr("10240"), HasSubstr("parameters 4096"),
                      HasSubstr("activations 2048")));
  }
}

TEST(DeviceMemory, AsksTheReclaimerAsLongAsItFindsSomething) {
  Profile profile = test::slow_profile();
  profile.capacity_bytes = 4096;
  const auto device = test::make_device({"dry", {}, true}, profile);
  DeviceMemory& memory = device->memory();
  Stream& stream = device->current_stream();
  const auto a = memory.allocate(2048, Purpose::kActivations, stream);
  const auto b = memory.allocate(2048, Purpose::kActivations, stream);
  Giver giver(memory, {a, b});
  memory.add_reclaimer(giver);
  EXPECT_NO_THROW((void)memory.allocate(4096, Purpose::kActivations, stream));
  EXPECT_THROW((void)memory.allocate(512, Purpose::kActivations, stream), Error);
}

TEST(DeviceMemory, AsksEveryReclaimerThatIsThere) {
  Profile profile = test::slow_profile();
  profile.capacity_bytes = 4096;
  const auto device = test::make_device({"dry", {}, true}, profile);
  DeviceMemory& memory = device->memory();
  Stream& stream = device->current_stream();
  const auto a = memory.allocate(2048, Purpose::kActivations, stream);
  const auto b = memory.allocate(2048, Purpose::kActivations, stream);
  Giver first(memory, {a});
  Giver second(memory, {b});
  memory.add_reclaimer(first);
  {
    Giver gone(memory, {});
    memory.add_reclaimer(gone);
    memory.add_reclaimer(second);
    memory.remove_reclaimer(gone);
  }
  EXPECT_NO_THROW((void)memory.allocate(4096, Purpose::kActivations, stream));
}

}  // namespace
}  // namespace ebb::device
