#include "bench/soak/soak_memory.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebb::bench {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::size_t kMuch = std::size_t{1} << 40;

SoakMemory flat() {
  return {.device_bytes = 1000, .device_reserved_bytes = 5000, .host_pinned_bytes = 8000};
}

TEST(MemoryWatchTest, SaysNothingOfFlatMemory) {
  MemoryWatch watch(100, flat());
  for (std::int64_t step = 1; step <= 100; ++step) {
    EXPECT_THAT(watch.add(step, flat()), IsEmpty());
  }
  EXPECT_THAT(watch.growth(0), IsEmpty());
  EXPECT_EQ(watch.resident_growth_bytes_per_step(), 0);
}

TEST(MemoryWatchTest, NamesEveryFigureThatIsNotAsBefore) {
  MemoryWatch watch(100, flat());
  SoakMemory now = flat();
  now.device_bytes += 1;
  now.host_bytes = 512;
  now.engine_blocks = 2;
  now.engine_backwards = 3;
  EXPECT_THAT(watch.add(1, now), AllOf(HasSubstr("device bytes: 1001 and not 1000"),
                                       HasSubstr("host bytes: 512 and not 0"),
                                       HasSubstr("blocks of the engine: 2 and not 0"),
                                       HasSubstr("backwards of the engine: 3 and not 0")));
  // These may change from step to step.
  now = flat();
  now.device_reserved_bytes += 1;
  now.host_pinned_bytes += 1;
  now.engine_learned += 1;
  EXPECT_THAT(watch.add(2, now), IsEmpty());
}

TEST(MemoryWatchTest, AWindowHasTheLeastAndTheMostOfItsSteps) {
  MemoryWatch watch(100, flat());
  for (const std::int64_t step : {11, 15, 20}) {
    SoakMemory now = flat();
    now.engine_learned = static_cast<std::size_t>(step);
    watch.add(step, now);
  }
  watch.add(100, flat());
  ASSERT_EQ(watch.windows().size(), 10U);
  const SoakWindow& window = watch.windows()[1];
  EXPECT_EQ(window.first_step, 11);
  EXPECT_EQ(window.samples, 3);
  EXPECT_EQ(window.least.engine_learned, 11U);
  EXPECT_EQ(window.most.engine_learned, 20U);
  EXPECT_EQ(watch.windows()[0].samples, 0);
  EXPECT_EQ(watch.windows()[9].samples, 1);
  EXPECT_EQ(MemoryWatch(3, flat()).windows().size(), 3U);
}

TEST(MemoryWatchTest, AddressesThatGrowInTheSecondHalfAreReported) {
  MemoryWatch watch(100, flat());
  SoakMemory now = flat();
  watch.add(10, now);
  now.device_reserved_bytes = 7500;
  watch.add(90, now);
  EXPECT_THAT(watch.growth(kMuch), IsEmpty());
  now.device_reserved_bytes = 7501;
  watch.add(95, now);
  EXPECT_THAT(watch.growth(kMuch), HasSubstr("addresses of the device: 5000"));
  now.host_pinned_bytes = 80000;
  watch.add(96, now);
  EXPECT_THAT(watch.growth(kMuch), HasSubstr("pinned bytes"));
}

TEST(MemoryWatchTest, ResidentMemoryIsJudgedByTheSlopeOfTheSecondHalf) {
  MemoryWatch watch(200, flat());
  for (std::int64_t step = 1; step <= 200; ++step) {
    SoakMemory now = flat();
    // Grows fast at first, as caches fill.
    now.resident_bytes =
        static_cast<std::size_t>(step <= 100 ? 1000 * step : 100'000 + 7 * step);
    watch.add(step, now);
  }
  EXPECT_NEAR(watch.resident_growth_bytes_per_step(), 7, 1e-6);
  EXPECT_THAT(watch.growth(710), IsEmpty());
  EXPECT_THAT(watch.growth(690), HasSubstr("resident bytes: "));
}

TEST(ResidentBytesTest, CountsThisProcess) {
  EXPECT_GT(resident_bytes(), std::size_t{1} << 20);
  EXPECT_LT(resident_bytes(), kMuch);
}

}  // namespace
}  // namespace ebb::bench
