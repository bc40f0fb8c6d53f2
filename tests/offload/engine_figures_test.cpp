#include "offload/engine/engine_figures.h"

#include "gtest/gtest.h"

namespace ebb::offload {
namespace {

TEST(EngineFiguresTest, AddUp) {
  EngineFigures a{.kept_bytes = 1,
                  .offloaded_bytes = 2,
                  .shared_bytes = 3,
                  .recomputed_bytes = 4,
                  .kept = {},
                  .largest_small_bytes = 5,
                  .no_room_bytes = 6,
                  .no_room_recomputed_bytes = 7,
                  .room_waits = 8,
                  .d2h_bytes = 9,
                  .h2d_bytes = 10,
                  .revived_bytes = 11,
                  .dropped_bytes = 12,
                  .refetched_bytes = 13,
                  .blocks = 14,
                  .hits = 15,
                  .late = 16,
                  .missed = 17,
                  .d2h_plan = {1, 2, 3, 4},
                  .h2d_plan = {}};
  for (std::size_t why = 0; why < kKeptReasons; ++why) a.kept[why] = {20 + why, 30 + why};
  EngineFigures b = a;
  b.largest_small_bytes = 4;
  b.d2h_plan = {5, 6, 7, 8};
  a += b;
  EXPECT_EQ(a.kept_bytes, 2U);
  EXPECT_EQ(a.offloaded_bytes, 4U);
  EXPECT_EQ(a.shared_bytes, 6U);
  EXPECT_EQ(a.recomputed_bytes, 8U);
  for (std::size_t why = 0; why < kKeptReasons; ++why) {
    EXPECT_EQ(a.kept[why].tensors, 2 * (20 + why));
    EXPECT_EQ(a.kept[why].bytes, 2 * (30 + why));
  }
  EXPECT_EQ(a.largest_small_bytes, 5U);  // The larger one.
  EXPECT_EQ(a.no_room_bytes, 12U);
  EXPECT_EQ(a.no_room_recomputed_bytes, 14U);
  EXPECT_EQ(a.room_waits, 16U);
  EXPECT_EQ(a.d2h_bytes, 18U);
  EXPECT_EQ(a.h2d_bytes, 20U);
  EXPECT_EQ(a.revived_bytes, 22U);
  EXPECT_EQ(a.dropped_bytes, 24U);
  EXPECT_EQ(a.refetched_bytes, 26U);
  EXPECT_EQ(a.blocks, 28U);
  EXPECT_EQ(a.hits, 30U);
  EXPECT_EQ(a.late, 32U);
  EXPECT_EQ(a.missed, 34U);
  EXPECT_EQ(a.d2h_plan.planned, 1);  // No sum.
  b += a;
  EXPECT_EQ(b.largest_small_bytes, 5U);
}

}  // namespace
}  // namespace ebb::offload
