// The promise of docs/performance.md: what the pool pins over what is asked of it.

#include "bench/pool_waste.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace ebb::bench {
namespace {

using Kind = PoolEvent::Kind;

TEST(PoolWaste, IsCountedByHand) {
  // Two steps: a block that waits for its fence while another is asked for, of another
  // size.
  std::vector<PoolEvent> trace;
  for (std::uint64_t block : {0U, 2U}) {
    trace.insert(trace.end(), {{Kind::kAllocate, 5'000},
                               {Kind::kRelease, block},
                               {Kind::kAllocate, 3'000},
                               {Kind::kReached, block},
                               {Kind::kRelease, block + 1},
                               {Kind::kReached, block + 1},
                               {Kind::kStep}});
  }
  const PoolWaste ours = waste_of_pinned_pool(events_of(trace));
  EXPECT_EQ(ours.requested_bytes, 8'000U);
  EXPECT_EQ(ours.reserved_bytes, 8'192U) << "to the page: 5,120 and 3,072 bytes";
  EXPECT_EQ(ours.steps, 2U);
  EXPECT_EQ(ours.last_growth, 1U);
  EXPECT_EQ(ours.unserved_bytes, 0U);

  const PoolWaste powers = waste_of_powers_of_two(events_of(trace));
  EXPECT_EQ(powers.requested_bytes, 8'000U);
  EXPECT_EQ(powers.reserved_bytes, 8'192U + 4'096U);
}

TEST(PoolWaste, CountsWhatThePoolHadNoRoomFor) {
  const PoolWaste waste = waste_of_pinned_pool(events_of({{Kind::kStep},
                                                          {Kind::kAllocate, 4'096},
                                                          {Kind::kStep},
                                                          {Kind::kRelease, 0},
                                                          {Kind::kReached, 0},
                                                          {Kind::kAllocate, 4'096}}));
  EXPECT_EQ(waste.unserved_bytes, 4'096U);
  EXPECT_EQ(waste.last_growth, 2U);
  EXPECT_EQ(waste.reserved_bytes, 4'096U);
}

PoolWaste compare(const char* name, PoolEvents (*events)(const char*)) {
  const PoolWaste ours = waste_of_pinned_pool(events(name));
  const PoolWaste powers = waste_of_powers_of_two(events(name));
  std::printf("%s: reserved / requested %.3f, with powers of two %.3f\n", name,
              ours.ratio(), powers.ratio());
  EXPECT_LT(ours.ratio(), powers.ratio());
  return ours;
}

class RecordedTraining : public ::testing::TestWithParam<const char*> {};

// Case 28: lengths vary in `packed`, and no step is like one before.
TEST_P(RecordedTraining, TakesLittleMoreThanWasAskedForAndSettlesInTwoSteps) {
  const PoolWaste waste = compare(GetParam(), [](const char* name) {
    const auto file = std::string("pool_") + name + ".txt";
    return events_of(read_pool_trace(std::filesystem::path(EBB_POOL_TRACES) / file));
  });
  EXPECT_LE(waste.ratio(), 1.05);
  EXPECT_GE(waste.steps, 6U);
  EXPECT_LE(waste.last_growth, 3U);
  EXPECT_LE(waste.unserved_bytes, waste.requested_bytes / 5);
}
INSTANTIATE_TEST_SUITE_P(Traces, RecordedTraining,
                         ::testing::Values("gpt2", "packed", "resnet"),
                         [](const auto& test) { return test.param; });

bool is_full_matrix() {
  const char* matrix = std::getenv("EBB_MATRIX");
  return matrix != nullptr && std::string_view(matrix) == "full";
}

TEST(RandomTraining, TakesAtMost115Percent) {
  const PoolWaste waste = compare("random", [](const char*) {
    RandomTrace random;
    random.operations = is_full_matrix() ? 10'000'000 : 300'000;
    return random_pool_events(random);
  });
  EXPECT_LE(waste.ratio(), 1.15);
}

}  // namespace
}  // namespace ebb::bench
