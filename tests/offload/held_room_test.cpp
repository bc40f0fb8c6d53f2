#include "offload/engine/held_room.h"

#include "gtest/gtest.h"

#include "runtime/device/sim/sim_device.h"
#include "tests/support/devices.h"

namespace ebb::offload {
namespace {

constexpr std::size_t kBudget = 64 * 1024;
constexpr std::size_t kTaken = 16 * 1024;

class HeldRoomTest : public testing::Test {
 protected:
  // What the rest of a step takes.
  void take() {
    const std::uintptr_t address =
        device->memory().allocate(kTaken, Purpose::kActivations, device->current_stream());
    device->memory().free(address, {});
  }

  const std::unique_ptr<device::Device> device = test::make_device({});
  HeldRoom room{*device, kBudget};
};

TEST_F(HeldRoomTest, HasAsMuchAsTheBudgetHasFreeForWhatCannotBeMadeAgain) {
  EXPECT_EQ(room.budget(), kBudget);
  EXPECT_TRUE(room.has(kBudget, false));
  EXPECT_FALSE(room.has(kBudget + 1, false));
  const std::uintptr_t address =
      device->memory().allocate(kTaken, Purpose::kActivations, device->current_stream());
  EXPECT_TRUE(room.has(kBudget - kTaken, false));
  EXPECT_FALSE(room.has(kBudget - kTaken + 1, false));
  device->memory().free(address, {});
}

TEST_F(HeldRoomTest, HasNoneInTheFirstStepForWhatCanBeMadeAgain) {
  EXPECT_FALSE(room.has(1, true));
  take();
  room.end_step();
  EXPECT_TRUE(room.has(kBudget - kTaken, true));  // Which the step did not take.
  EXPECT_FALSE(room.has(kBudget - kTaken + 1, true));
}

TEST_F(HeldRoomTest, KeepsTheMostThatWasNeededFromWhatCanBeMadeAgain) {
  take();
  room.hold(1000, false);
  room.release(1000, false);
  room.end_step();
  const std::size_t left =
      kBudget - kTaken + 1000;  // What was held is among what was taken.
  EXPECT_TRUE(room.has(left - 1000, true));
  EXPECT_FALSE(room.has(left - 999, true));
  room.hold(500, true);
  EXPECT_EQ(room.bytes(), 500U);
  EXPECT_TRUE(room.has(left - 1500, true));
  EXPECT_FALSE(room.has(left - 1499, true));
  room.release(500, true);
  EXPECT_EQ(room.bytes(), 0U);
}

}  // namespace
}  // namespace ebb::offload
